import { optional } from '@oarlock/kernel/slot';
import { Network } from '@oarlock/spi/network';
import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { DockerRuntime } from './docker-runtime.ts';
import { probeSocket } from './probe.ts';

const config = z.strictObject({
  /** The engine's: `/var/run/docker.sock` by default. */
  socket: z.string().startsWith('/').default('/var/run/docker.sock'),
  /** What sandboxes run; absent: a program of a few bytes that is made here. */
  sandboxImage: z.string().min(1).optional(),
  /** For every call but image pulls; stops get it on top of their own time. */
  requestTimeoutSeconds: z.number().positive().default(120),
  imagePullTimeoutSeconds: z.number().positive().default(3_600),
});

/** Pods on the docker engine, 20.10 and newer. */
export default Runtime.plugin({
  id: 'runtime-docker',
  config,
  needs: { network: optional(Network) },
  declares: { invokesCni: false, images: true, networkNamespaces: true, survivesRestart: true },
  probe: ({ socket }) => probeSocket(socket),
  create: ({ config: settings, network }, { clock, log, dataDir }) => new DockerRuntime(settings, network, { clock, log, dataDir }),
});
