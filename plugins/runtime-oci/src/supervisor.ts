// The program of the supervisor process: `node supervisor.js OPTIONS`, OPTIONS being JSON of SupervisorOptions. It imports little, because its start
// delays the first pod.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PipeStock } from '@oarlock/process-supervisor/containers/pipes';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { findTools } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { runSupervisor } from '@oarlock/process-supervisor/supervisor/run-supervisor';
import { OciLauncher } from './containers/oci-launcher.ts';
import { PodResourceManager } from './containers/pod-resources.ts';
import { Runc } from './containers/runc.ts';
import { availableCapabilities } from './spec/capabilities.ts';

export interface SupervisorOptions {
  readonly dataDir: string;
  /** Path of runc or crun. */
  readonly runc: string;
  readonly idleMs: number;
}

const options = JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions;

await runSupervisor(options, async ({ dataDir, store, clock }) => {
  const tools = await findTools({ namespaces: true });
  if (tools.mkfifo === undefined) throw new SupervisorError('FailedPrecondition', 'the program mkfifo is not installed');
  const cgroups = CgroupManager.open(clock);
  const host = { tools, clock, pipes: new PipeStock(join(dataDir, 'pipes'), tools.mkfifo) };
  const apparmor = '/sys/module/apparmor/parameters/enabled';
  const launcher = new OciLauncher({
    host,
    store,
    cgroups,
    pods: new PodResourceManager((id) => store.directoryOfSandbox(id), tools),
    runc: new Runc(options.runc, join(dataDir, 'state'), host),
    node: {
      capabilities: availableCapabilities(),
      cgroups: cgroups?.version,
      apparmor: existsSync(apparmor) && readFileSync(apparmor, 'latin1').startsWith('Y'),
      seccomp: existsSync('/proc/sys/kernel/seccomp/actions_avail'),
      architecture: process.arch,
    },
  });
  return {
    host,
    cgroups,
    launcher,
    info: { isolation: { mode: 'root' }, notes: cgroups ? [] : ['resource limits are not enforced: control groups cannot be created'] },
  };
});
