import { systemClock } from '@oarlock/primitives/clock';
import { runtimeContract, type Program } from '@oarlock/spi/runtime/contract';
import { SimulatedRuntime } from '../src/simulated-runtime.ts';

const nothingRuns = 'nothing runs';
/** The suite's programs as commands of simulated containers. */
const words: Readonly<Partial<Record<Program, readonly string[]>>> = {
  serve: ['serve'],
  count: ['wc'],
  flood: ['repeat'],
  idle: ['sleep', 'infinity'],
  alive: ['pgrep'],
};

runtimeContract('simulated', async () => ({
  driver: new SimulatedRuntime(systemClock, { images: ['app'] }),
  image: 'app',
  command: (program, args) => ({ command: words[program] ?? [program], args }),
  unsupported: {
    logs: 'no files are written',
    execTty: 'there are no terminals',
    attach: 'containers say nothing',
    portForward: 'nothing listens',
    updateResources: 'there are no cgroups',
    oom: 'memory is not used',
    imagePull: 'there is no registry: every name can be pulled',
    adoption: 'pods live in the driver',
    environment: nothingRuns,
    mounts: nothingRuns,
  },
  dispose: async () => {},
}));
