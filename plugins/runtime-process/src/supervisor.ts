// The program of the supervisor process, which the driver starts with the first pod: `node supervisor.js OPTIONS`, OPTIONS being JSON of
// SupervisorOptions. It imports little, because its start delays the first pod.
import { join } from 'node:path';
import { PipeStock } from '@oarlock/process-supervisor/containers/pipes';
import { StrayProcessSweeper } from '@oarlock/process-supervisor/containers/stray-process-sweeper';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { findTools, limitationNotes } from '@oarlock/process-supervisor/host/host-tools';
import { runSupervisor } from '@oarlock/process-supervisor/supervisor/run-supervisor';
import { probeIsolation } from './containers/isolation-probe.ts';
import { ProcessLauncher } from './containers/process-launcher.ts';
import { hiddenDirectories } from './isolation/isolation.ts';

export interface SupervisorOptions {
  readonly dataDir: string;
  /** Precedes the system's directories on the PATH of containers. */
  readonly path: string;
  readonly nice: number;
  readonly cgroups: boolean;
  readonly namespaces: boolean;
  readonly isolation: 'auto' | 'required' | 'none';
  /** Directories besides `dataDir` that isolated containers do not see. */
  readonly hiddenPaths: readonly string[];
  readonly idleMs: number;
}

const options = JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions;

await runSupervisor(options, async ({ dataDir, store, clock, log }) => {
  const { path, nice, namespaces } = options;
  const tools = await findTools({ namespaces });
  const hidden = hiddenDirectories(options);
  const isolation = await probeIsolation({ tools, hidden, dataDir, isolation: options.isolation, namespaces });
  const noIsolation = isolation.mode === 'none' ? isolation.reason : undefined;
  const cgroups = options.cgroups ? CgroupManager.open(clock) : undefined;
  const host = { tools, clock, pipes: tools.mkfifo === undefined ? undefined : new PipeStock(join(dataDir, 'pipes'), tools.mkfifo) };
  const launcher = new ProcessLauncher({
    host,
    cgroups,
    store,
    log,
    path,
    nice,
    isolation,
    requiresIsolation: options.isolation === 'required',
    hidden,
    sweeper: new StrayProcessSweeper(clock),
  });
  return { host, cgroups, launcher, info: { isolation, notes: limitationNotes(tools, { cgroups: cgroups !== undefined, noIsolation }) } };
});
