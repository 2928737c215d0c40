"""The experiments of the Fed+ paper: ``python -m papers.fed_plus STUDY``, from a checkout.

Each experiment is a **study**: a module here with one ``STUDY``, listed in ``registry.STUDIES``. To add
a study, write such a module and list it there. A study has four steps, each a function:

``train(options)``
    Train the runs that are not finished, into ordinary run folders under ``options.folder``. The
    experiments are TOML files in ``specs/``, in the format of ``fedplus run``. ``specs.load_spec``
    reads one; ``training.train_specs`` trains several in ``options.jobs`` processes and skips
    finished runs.
``collect(options)``
    Summarise the run folders as small files: name ↦ content. They are written next to the runs and,
    with ``--results papers/fed_plus/results``, to the folder of the committed results.
``draw(results)``
    Draw figures (name ↦ matplotlib figure) from those small files alone; ``plot`` defines the colours.
``blocks(results)``
    Write parts of ``README.md`` in Markdown (name ↦ text) from the same files;
    ``write_readme.fill_blocks`` puts them between ``<!-- name -->`` and ``<!-- end -->``.

In the larger studies ``draw`` and ``blocks`` are in a module of their own, e.g. ``silos_report``. The
paper's own numbers are in ``published.toml`` and nowhere else. ``options.quick`` asks for a trial of
about a minute, which runs the same code with few rounds and one seed, in a separate folder.
"""
