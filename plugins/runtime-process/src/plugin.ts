import { available, unavailable } from '@oarlock/kernel/plugin';
import { optional } from '@oarlock/kernel/slot';
import { Network } from '@oarlock/spi/network';
import { Process } from '@oarlock/spi/process';
import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { ProcessRuntime } from './process-runtime.ts';

export default Runtime.plugin({
  id: 'runtime-process',
  config: z.strictObject({
    /** Whether pods keep running after an orderly stop of Oarlock. After a crash they always do. */
    keepPods: z.boolean().default(false),
    stopGraceSeconds: z.number().min(0).max(3600).default(2),
    /** Searched before the system's directories for the commands of containers. */
    path: z
      .string()
      .regex(/^\/[^:\0]*(:\/[^:\0]*)*$/, 'must be absolute paths with ":" between them')
      .optional(),
    nice: z.int().min(-20).max(19).default(0),
    cgroups: z.boolean().default(true),
    namespaces: z.boolean().default(true),
    /** Whether pods are isolated from the node and from each other: if possible, or else the start fails, or not at all. */
    isolation: z.enum(['auto', 'required', 'none']).default('auto'),
    /** Directories besides the data directory and home directories that isolated pods do not see. */
    hiddenPaths: z
      .array(z.string().regex(/^\/[^\0]*[^\0/]$/, 'must be absolute paths without "/" at the end'))
      .max(64)
      .default([]),
    idleSeconds: z.number().min(1).max(86_400).default(30),
  }),
  needs: { network: optional(Network), process: optional(Process) },
  declares: { invokesCni: false, images: false, survivesRestart: true, networkNamespaces: 'root', mountNamespaces: 'root', tty: 'script' },
  probe: async () =>
    process.platform === 'win32'
      ? unavailable('process groups and unix sockets with permissions are needed, and Windows has neither')
      : available,
  create: ({ config, network, process: view }, { clock, log, dataDir }) =>
    new ProcessRuntime(config, network, { clock, log, dataDir, processDataDir: view?.dataDir }),
});
