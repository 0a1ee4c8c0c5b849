// The program of the supervisor process: `node supervisor.js OPTIONS`, OPTIONS being JSON of SupervisorOptions. It imports little, because its start
// delays the first pod.
import { join } from 'node:path';
import { PipeStock } from '@oarlock/process-supervisor/containers/pipes';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { findTools } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { runSupervisor } from '@oarlock/process-supervisor/supervisor/run-supervisor';
import { OciLauncher } from './containers/oci-launcher.ts';
import { PodResourceManager } from './containers/pod-resources.ts';
import { Runc } from './containers/runc.ts';
import { createToolbox } from './containers/toolbox.ts';
import { Unshare } from './containers/unshare.ts';
import { kernelFeatures, minOomScoreAdj } from './modes/kernel-features.ts';
import { limitations, modeName } from './modes/limitations.ts';
import { describeMode, type RuntimeMode } from './modes/runtime-mode.ts';
import { availableCapabilities } from './spec/capabilities.ts';

export interface SupervisorOptions {
  readonly dataDir: string;
  readonly mode: RuntimeMode;
  readonly idleMs: number;
}

const options = JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions;

await runSupervisor(options, async ({ dataDir, store, clock, log }) => {
  const { mode } = options;
  const tools = await findTools({ namespaces: true });
  if (tools.mkfifo === undefined) throw new SupervisorError('FailedPrecondition', 'the program mkfifo is not installed');
  const cgroups = CgroupManager.open(clock);
  const host = { tools, clock, pipes: new PipeStock(join(dataDir, 'pipes'), tools.mkfifo) };
  // not `tools`, which containers of earlier versions can write to
  const toolbox = join(dataDir, 'toolbox');
  if (mode.program === 'unshare') await createToolbox(toolbox);
  const capabilities = availableCapabilities();
  const kernel = kernelFeatures();
  const makesDevices = modeName(mode) === 'root with runc';
  const launcher = new OciLauncher({
    host,
    store,
    cgroups,
    log,
    mountsRoots: mode.user === 'root',
    pods: new PodResourceManager((id) => store.directoryOfSandbox(id), { tools, mode: mode.user }),
    program:
      mode.program === 'unshare'
        ? new Unshare({ mode: mode.user, host, cgroups, toolbox, capabilities })
        : new Runc({ program: mode.path, stateDirectory: join(dataDir, 'state'), host, cgroups }),
    node: {
      // without an OCI runtime no control group restricts devices, and in a user namespace the kernel makes none
      capabilities: makesDevices ? capabilities : capabilities.filter((name) => name !== 'MKNOD'),
      cgroups: cgroups?.version,
      apparmor: makesDevices && kernel.apparmor,
      seccomp: mode.program === 'runc' && kernel.seccomp,
      architecture: process.arch,
      userNamespace: mode.user === 'user' || mode.mapped === true,
      makesDevices,
      minOomScoreAdj: minOomScoreAdj(),
    },
  });
  return {
    host,
    cgroups,
    launcher,
    info: {
      isolation: { mode: mode.user },
      notes: [
        describeMode(mode),
        ...limitations(mode, { cgroups: cgroups !== undefined, networks: true, kernel, oomScores: minOomScoreAdj() < 0 })
          .filter(({ onRequest }) => onRequest !== true)
          .map(({ message }) => message),
      ],
    },
  };
});
