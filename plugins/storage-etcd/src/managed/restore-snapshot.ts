import { access, mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import { runProgram, type ProgramResult } from '@oarlock/primitives/os/run-program';
import { memberEnvironment } from './member-program.ts';

const restoreTimeoutMs = 30 * 60_000;
const helpTimeoutMs = 10_000;
/** As `etcdutl` recommends: more revisions than the cluster can have written since the snapshot. */
const revisionBump = 1_000_000_000;

export interface RestoreOptions {
  readonly snapshot: string;
  readonly dataDir: string;
  /** The path of the etcd program; the tools are searched beside it. */
  readonly program: string;
  readonly name: string;
  readonly peerUrl: string;
  readonly token: string;
  readonly clock: Clock;
  /** Ends the restore; the data is then unchanged. */
  readonly signal: AbortSignal;
}

/**
 * Replaces the data of a member by a snapshot, as the only member of a new cluster. The former data is kept beside it until the next restore. Uses
 * `etcdutl`, or `etcdctl` before etcd 3.5. Returns true if revisions continue far above those of the snapshot, so that no revision is used twice.
 * @throws Error if the snapshot is damaged; the data is then unchanged
 */
export async function restoreSnapshot(options: RestoreOptions): Promise<boolean> {
  const { snapshot, dataDir, name, peerUrl, token, clock, signal } = options;
  await access(snapshot);
  const { tool, canBump } = await findTool(options);
  const next = `${dataDir}.restoring`;
  await rm(next, { recursive: true, force: true });
  await mkdir(dirname(next), { recursive: true, mode: 0o700 });
  const cluster = [`--name=${name}`, `--initial-cluster=${name}=${peerUrl}`, `--initial-advertise-peer-urls=${peerUrl}`];
  const bump = canBump ? [`--bump-revision=${revisionBump}`, '--mark-compacted'] : [];
  const result = await runTool(
    tool,
    ['snapshot', 'restore', snapshot, `--data-dir=${next}`, ...cluster, `--initial-cluster-token=${token}`, ...bump],
    {
      clock,
      timeoutMs: restoreTimeoutMs,
      signal,
    },
  );
  if (result.exitCode !== 0) throw new Error(`${basename(tool)} cannot restore ${snapshot}: ${result.killed ?? lastLine(result.stderr)}`);
  const former = `${dataDir}.before-restore`;
  await rm(former, { recursive: true, force: true });
  await rename(dataDir, former).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(next, dataDir);
  return canBump;
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';

interface RunOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const runTool = (tool: string, args: readonly string[], { clock, ...options }: RunOptions): Promise<ProgramResult> =>
  runProgram(clock, tool, args, { ...options, env: { ...memberEnvironment, ETCDCTL_API: '3' } });

/** Returns the first tool that restores snapshots. @throws Error if there is none */
async function findTool({ program, clock }: RestoreOptions): Promise<{ readonly tool: string; readonly canBump: boolean }> {
  const beside = program.includes('/') ? (tool: string) => join(dirname(program), tool) : (tool: string) => tool;
  for (const tool of [beside('etcdutl'), beside('etcdctl')]) {
    try {
      const { stdout, exitCode } = await runTool(tool, ['snapshot', 'restore', '--help'], { clock, timeoutMs: helpTimeoutMs });
      if (exitCode === 0) return { tool, canBump: stdout.includes('--bump-revision') };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('neither etcdutl nor etcdctl is installed, one of which restores snapshots (Debian: etcd-client)');
}
