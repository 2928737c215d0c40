"""The paper's experiments: ``fedplus paper NAME``.

The library knows nothing of them. Each is a **study**: a module here with one ``STUDY``, named in
``studies.STUDIES``; nothing else has to be touched to add one. A study has four steps, each a function:

``train(asked)``
    Train what is not finished, into ordinary run folders under ``asked.folder``. Experiments are TOML
    files in ``specs/``, such as ``fedplus run`` takes; ``specs.spec`` reads one, ``training.trained``
    trains several, a process for each of ``asked.jobs``, and leaves finished runs alone.
``collect(asked)``
    What the run folders say, as small files: name ↦ content. They are written beside the runs and,
    with ``--results docs/paper``, to where the documentation takes them from. ``results.csv_of`` and
    ``results.json_of`` make them; the specification goes with them.
``draw(results)``
    Figures (name ↦ matplotlib figure), from those small files alone; ``plot`` has the colours.
``blocks(results)``
    Parts of ``docs/paper.md`` in Markdown (name ↦ text), from the same files; ``page.filled`` puts them
    between ``<!-- name -->`` and ``<!-- end -->``.

The paper's own numbers are in ``published.toml`` and nowhere else. ``asked.quick`` asks for a try of a
minute or so that goes through the same code: few rounds, one seed, in a folder of its own.
"""
