import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { ContainerdRuntime } from './containerd-runtime.ts';
import { probeSocket } from './probe.ts';

const config = z.strictObject({
  /** The socket of containerd, or of CRI-O: `/run/crio/crio.sock`. */
  socket: z.string().startsWith('/').default('/run/containerd/containerd.sock'),
  /** The timeout of every call except image pulls. RunPodSandbox gets twice this time; StopContainer gets it in addition to the grace period. */
  requestTimeoutSeconds: z.number().positive().default(120),
  imagePullTimeoutSeconds: z.number().positive().default(3_600),
  /** The time without traffic after which a streaming session (exec, attach, port-forward) is closed. */
  streamIdleSeconds: z.number().positive().default(14_400),
});

export default Runtime.plugin({
  id: 'runtime-containerd',
  config,
  declares: { invokesCni: true, images: true, networkNamespaces: true, survivesRestart: true },
  probe: ({ socket }) => probeSocket(socket),
  exclusiveParts: ({ socket }) => [`the containers of ${socket}`],
  create: ({ config: settings }, context) => new ContainerdRuntime(settings, context),
});
