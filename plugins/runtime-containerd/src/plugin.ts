import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { ContainerdRuntime } from './containerd-runtime.ts';
import { probeSocket } from './probe.ts';

const config = z.strictObject({
  /** containerd's socket, or CRI-O's: `/run/crio/crio.sock`. */
  socket: z.string().startsWith('/').default('/run/containerd/containerd.sock'),
  /** For every call but image pulls; RunPodSandbox gets twice this, StopContainer gets it in addition to its grace period. */
  requestTimeoutSeconds: z.number().positive().default(120),
  imagePullTimeoutSeconds: z.number().positive().default(3_600),
  /** Streaming sessions (exec, attach, port-forward) without traffic for this long are closed. */
  streamIdleSeconds: z.number().positive().default(14_400),
});

export default Runtime.plugin({
  id: 'runtime-containerd',
  config,
  declares: { invokesCni: true, images: true, networkNamespaces: true, survivesRestart: true },
  probe: ({ socket }) => probeSocket(socket),
  create: ({ config: settings }, context) => new ContainerdRuntime(settings, context),
});
