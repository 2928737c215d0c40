"""The experiments of the Fed+ paper: ``python -m papers.fed_plus STUDY``, from a checkout.

Each experiment is a **study**: a module here with one ``STUDY``, listed in ``studies.STUDIES``. To add
a study, write such a module and list it there. A study has four steps, each a function:

``train(asked)``
    Train the runs that are not finished, into ordinary run folders under ``asked.folder``. The
    experiments are TOML files in ``specs/``, in the format of ``fedplus run``. ``specs.spec``
    reads one; ``training.trained`` trains several in ``asked.jobs`` processes and skips finished runs.
``collect(asked)``
    Summarise the run folders as small files: name ↦ content. They are written beside the runs and, with
    ``--results papers/fed_plus/results``, to the folder of the committed results.
``draw(results)``
    Figures (name ↦ matplotlib figure) from those small files alone; ``plot`` defines the colours.
``blocks(results)``
    Parts of ``README.md`` in Markdown (name ↦ text) from the same files; ``page.filled`` writes them
    between ``<!-- name -->`` and ``<!-- end -->``.

The paper's own numbers are in ``published.toml`` and nowhere else. ``asked.quick`` is a trial of about
a minute through the same code: few rounds and one seed, in its own folder.
"""
