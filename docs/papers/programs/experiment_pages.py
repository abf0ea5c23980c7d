"""Both pages of the experiments: `python -m docs.papers.programs.experiments draw` calls this."""

from __future__ import annotations

from docs.papers.programs import experiment_page, experiment_sweep_page, experiment_sweep_pictures


def write_pages(*, pictures: bool) -> None:
    """Write the tables of both pages, and the pictures if they are asked for."""
    experiment_page.check()
    for page in (experiment_page, experiment_sweep_page):
        experiment_page.write(page.PAGE, page.parts())
    if pictures:
        experiment_page.draw(experiment_page.figures() | experiment_sweep_pictures.figures())
