"""`multitracer campaign`: thousands of sessions as one folder of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multitracer.cli._options import (
    CommandGroup,
    FiniteRange,
    assets_option,
    byte_count,
    common_options,
    examples,
    named,
    target,
)
from multitracer.cli._reading import forces_reading
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.campaign.run import CampaignProgress, Workers

_MOST_SHOWN = 10
"""Maximum sessions that `status` lists."""


def _input(text: str) -> str:
    """Return the path of an input."""
    if text in ("", "-"):
        raise click.BadParameter(
            f"{text!r} is neither a folder nor a regular file; a campaign reads its inputs more than once"
        )
    return text


_campaign = click.argument("campaign", metavar="CAMPAIGN", type=named)


@click.group(
    "campaign",
    cls=CommandGroup,
    epilog=examples(
        "multitracer campaign run drives/ -o campaign",
        'multitracer campaign query campaign "SELECT name, headline FROM sessions"',
    ),
)
@common_options
def command() -> None:
    """Convert thousands of sessions into one folder of Parquet tables, and query them with SQL.

    docs/campaigns.md describes the folder and its tables. Requires the pip extra `campaign`.
    """


@command.command(
    "run",
    epilog=examples(
        "multitracer campaign run drives/ -o campaign",
        "multitracer campaign run drives/ /mnt/car2 capture.pcap -o campaign --jobs 4",
        "multitracer campaign run /nfs/drives -o /nfs/campaign --cluster tcp://scheduler:8786",
        "multitracer campaign run /nfs/drives -o /nfs/campaign --cluster tls://scheduler:8786 "
        "--cluster-cert me.pem --cluster-ca ca.pem",
        "multitracer campaign run --watch /srv/uploads -o campaign",
        "multitracer campaign run s3://drives/2026 -o s3://campaigns/2026",
    ),
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=_input)
@click.option(
    "-o", "--output", "campaign", type=named, metavar="CAMPAIGN", required=True,
    help="Folder of the campaign, or a URL such as s3://BUCKET/FOLDER. A folder that does not exist "
         "is created.",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N",
    help="Number of processes on this machine that analyse sessions.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="ADDRESS",
    help="Address of the scheduler of a Dask cluster, tcp://HOST:PORT or tls://HOST:PORT. The workers "
         "must see the inputs and the campaign under the same paths. Scheduler and workers can run any "
         "code in this program; use TLS, or a network that only they are in.",
)  # fmt: skip
@click.option("--cluster-cert", metavar="FILE", help="Certificate of this program (PEM), for a scheduler with TLS.")
@click.option("--cluster-key", metavar="FILE", help="Its private key (PEM). Default: in the file of the certificate.")
@click.option("--cluster-ca", metavar="FILE", help="Certificate of the authority that signed those of the cluster.")
@click.option(
    "--retry", is_flag=True, help="Also analyse again the inputs that failed before and have not changed since."
)
@click.option(
    "--strict",
    is_flag=True,
    help="End with exit status 1 if a session failed, now or before, or if something was passed over with a warning.",
)
@click.option(
    "--watch", "watched", is_flag=True,
    help="Run until Ctrl-C, and add each new session when its files are complete.",
)  # fmt: skip
@forces_reading
@common_options
def run(  # noqa: PLR0913  # each is an option
    inputs: tuple[str, ...],
    campaign: str,
    jobs: int,
    cluster: str | None,
    *,
    retry: bool,
    strict: bool,
    watched: bool,
    **certificates: str | None,
) -> None:
    """Add every session below the INPUTs to a campaign.

    An INPUT is a folder (searched for sessions), a capture, or the URL of a folder or capture. Inputs that
    are already in the campaign and have not changed are skipped, so the same command continues an
    interrupted run. A session that cannot be read becomes a row of the table failures.

    With --watch, a session is complete when every file has the size that the manifest lists. Without such a
    list, a session is complete when none of its files changed for 60 s. Ctrl-C or SIGTERM ends the watch
    with exit status 0 after the current session.

    The exit status is 0 even if sessions failed, and 1 with --strict; 1 if the campaign cannot be written or an
    INPUT is missing; 2 for wrong options; 130 after Ctrl-C.
    """
    from multitracer.campaign.run import run as run_campaign
    from multitracer.cli._campaign import CampaignProgressLine, watch_campaign
    from multitracer.cli._messages import warn

    workers = _workers(jobs, cluster, **certificates)
    if watched:
        progress = watch_campaign(inputs, campaign, workers=workers, retry=retry)
    else:
        with CampaignProgressLine() as line:
            progress = run_campaign(inputs, campaign, workers=workers, retry=retry, shown=line)
    waiting = (f"{each}; its current state is not in the campaign" for each in progress.waiting)
    for sentence in (*progress.passed_over, *(f"damaged: {each}" for each in progress.damaged), *waiting):
        warn(sentence)
    click.echo(_outcome(progress, campaign))
    if strict:
        _be_strict(progress, campaign)


def _be_strict(progress: CampaignProgress, campaign: str) -> None:
    """Raise an error if the campaign lacks something that is below its inputs."""
    from multitracer.cli._messages import chosen
    from multitracer.words import count, portable

    failed = progress.failed + progress.failed_before
    lacks = [f"{count(failed, 'session')} failed (`campaign status` shows why)"] if failed else []
    if progress.passed_over:
        where = f", of which the first is: {progress.passed_over[0]}" if chosen.errors_only else " above"
        lacks.append(f"{count(len(progress.passed_over), 'warning')}{where}")
    if lacks:
        raise InputError(f"{portable(campaign)}: {' and '.join(lacks)}; without --strict this is no error")


def _workers(
    jobs: int,
    address: str | None,
    *,
    cluster_cert: str | None = None,
    cluster_key: str | None = None,
    cluster_ca: str | None = None,
) -> Workers:
    from multitracer.campaign.run import in_process

    if (cluster_cert is None) != (cluster_ca is None) or (cluster_key and not cluster_cert):
        raise click.UsageError("TLS needs both --cluster-cert and --cluster-ca; add the missing one")
    if cluster_cert and address is None:
        raise click.UsageError("--cluster-cert needs --cluster; add the address of the scheduler")
    if address is None and jobs == 1:
        return in_process
    from multitracer.campaign.cluster import ClusterCertificates, OnCluster

    files = ClusterCertificates(cluster_cert, cluster_ca, cluster_key) if cluster_cert and cluster_ca else None
    return OnCluster(jobs, address, files)


def _outcome(progress: CampaignProgress, campaign: str) -> str:
    from multitracer.words import count, duration, portable, printable

    took = "" if progress.is_watch else f" in {duration(progress.took_s * 1e9)}"
    words = [f"{count(progress.done, 'session')} analysed{took}"]
    words += [f"{progress.failed:,} of them failed; the table failures lists the reasons"] if progress.failed else []
    is_counted = progress.unchanged and not progress.is_watch
    words += [f"{progress.unchanged:,} unchanged"] if is_counted else []
    return f"{printable(portable(campaign))}: {', '.join(words)}"


@command.command(
    "query",
    epilog=examples(
        'multitracer campaign query campaign "SELECT name, headline FROM sessions"',
        'multitracer campaign query campaign "FROM seconds" -o seconds.parquet',
    ),
)
@_campaign
@click.argument("sql", metavar="SQL")
@click.option("--csv", "form", flag_value="csv", help="Write the result as CSV.")
@click.option(
    "--json",
    "form",
    flag_value="json",
    help="Write the result as JSON, a list of objects; `multitracer schema campaign-query` describes it.",
)
@click.option(
    "-o", "--output", type=target, metavar="FILE",
    help="Write the result to this file. The suffix of the file selects the format: .csv, .json or "
         ".parquet.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=0, min_open=True), default=60.0, show_default=True, metavar="S",
    help="End the query when it has computed for S seconds.",
)  # fmt: skip
@click.option("--max-rows", type=click.IntRange(min=0), metavar="N", help="End with an error after more than N rows.")
@click.option(
    "--max-bytes", type=byte_count, metavar="N",
    help="End with an error after more than N bytes of rows, as they are in memory (500M, 2G).",
)  # fmt: skip
@common_options
def query(  # noqa: PLR0913  # each is an option
    campaign: str,
    sql: str,
    *,
    form: str | None,
    output: str | None,
    timeout_s: float,
    max_rows: int | None,
    max_bytes: int | None,
) -> None:
    """Run an SQL query on a campaign.

    SQL is exactly one DuckDB statement on the tables that docs/campaigns.md lists. The statement can read only
    these tables, no files and no network. Without --csv, --json and -o, the command prints a table.
    """
    from multitracer.campaign.catalogue import Catalogue
    from multitracer.campaign.query import QueryBounds, bounded_query
    from multitracer.cli._campaign import write_answer

    with bounded_query(Catalogue(campaign), sql, QueryBounds(timeout_s, max_rows, max_bytes)) as answer:
        write_answer(answer, form, output)


@command.command(
    "report",
    epilog=examples(
        "multitracer campaign report campaign -o report",
        "multitracer campaign report campaign -o report --with-reports",
    ),
)
@_campaign
@click.option(
    "-o", "--output", "folder", type=named, metavar="DIR", required=True,
    help="Folder for the page index.html. A folder that does not exist is created.",
)  # fmt: skip
@click.option(
    "--with-reports", is_flag=True,
    help="Also write the reports of the sessions with the worst intervals. The logs of these "
         "sessions are read again.",
)  # fmt: skip
@assets_option
@forces_reading
@common_options
def report(campaign: str, folder: str, assets: str, *, with_reports: bool) -> None:
    """Write one page about all sessions: quality, bad places, causes, and the worst intervals.

    The page is one file that needs no network. The command prints its path.
    """
    import shlex

    from multitracer.campaign.report.write import write_campaign_report
    from multitracer.cli._messages import warn

    shared = assets == "shared"
    options = [*["--with-reports"] * with_reports, *["--assets", "shared"] * shared]
    words = shlex.join(["multitracer", "campaign", "report", campaign, "-o", folder, *options])
    outcome = write_campaign_report(campaign, folder, with_reports=with_reports, shared=shared, command=words)
    for sentence in outcome.failed:
        warn(sentence)
    click.echo(str(outcome.page))


@command.command("status", epilog=examples("multitracer campaign status campaign"))
@_campaign
@common_options
def status(campaign: str) -> None:
    """Show the content of a campaign, the incomplete inputs of --watch, and the first failures.

    Another process may write to the campaign at the same time.
    """
    from multitracer.campaign.upkeep import failures
    from multitracer.campaign.upkeep import status as status_of
    from multitracer.cli._output import page
    from multitracer.words import count, printable, size

    state = status_of(campaign)
    sheet = page()
    sheet.facts(
        [
            *((name, f"{rows:,}") for name, rows in state.rows.items()),
            ("snapshot", str(state.snapshot)),
            ("stored", f"{size(state.stored_bytes)} in {count(state.parts, 'part')}"),
            ("not yet merged", count(state.waiting, "session")),
            ("in analysis", count(state.attempts, "session")),
            ("incomplete inputs", count(state.incomplete, "session")),
        ]
    )
    for sentence in state.lacks[:_MOST_SHOWN]:
        sheet.line(f"incomplete at the last check of --watch: {printable(sentence)}")
    for sentence in failures(campaign):
        sheet.line(f"failed: {sentence}")


@command.command("verify", epilog=examples("multitracer campaign verify campaign"))
@_campaign
@common_options
def verify(campaign: str) -> None:
    """Read every byte of a campaign, and list the damaged files.

    The next `campaign run` on the same inputs repairs these files: it analyses their sessions again.
    """
    from multitracer.campaign.upkeep import faults
    from multitracer.campaign.upkeep import status as status_of
    from multitracer.words import count, printable

    wrong = faults(campaign)
    for sentence in wrong:
        click.echo(printable(sentence))
    if wrong:
        raise InputError(
            f"{printable(campaign)}: {count(len(wrong), 'fault')} (listed above); run `campaign run` again to repair"
        )
    state = status_of(campaign)
    rows = count(sum(state.rows.values()), "row")
    click.echo(f"{printable(campaign)}: no damage found, {count(state.parts, 'part')} with {rows}")


@command.command("forget", epilog=examples("multitracer campaign forget campaign 5b88ccdeda3fd137"))
@_campaign
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)
@common_options
def forget(campaign: str, sessions: tuple[str, ...]) -> None:
    """Remove sessions from a campaign.

    SESSION is a name, a path, or an identifier of the table sessions (its first digits are enough). The
    next run on the same inputs adds the session again.
    """
    from multitracer.campaign.upkeep import forget as forget_sessions

    for session in forget_sessions(campaign, sessions):
        click.echo(session)


@command.command("compact", epilog=examples("multitracer campaign compact campaign"))
@_campaign
@common_options
def compact(campaign: str) -> None:
    """Merge the small files of a campaign that many short runs have written."""
    from multitracer.campaign.upkeep import compact as compact_parts
    from multitracer.words import count

    before, after = compact_parts(campaign)
    click.echo(f"the campaign had {count(before, 'part')} before, and has {after:,} now")
