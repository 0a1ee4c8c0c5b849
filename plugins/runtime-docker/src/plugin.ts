import { optional } from '@oarlock/kernel/slot';
import { Network } from '@oarlock/spi/network';
import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { DockerRuntime } from './docker-runtime.ts';
import { probeSocket } from './probe.ts';

const config = z.strictObject({
  /** The socket of the Docker engine. */
  socket: z.string().startsWith('/').default('/var/run/docker.sock'),
  /** The sandbox image; by default a built-in image of a few bytes. */
  sandboxImage: z.string().min(1).optional(),
  /** The timeout of every call except image pulls. Stopping a container gets this time in addition to the grace period. */
  requestTimeoutSeconds: z.number().positive().default(120),
  imagePullTimeoutSeconds: z.number().positive().default(3_600),
});

/** Runs pods on the Docker Engine, version 20.10 and newer. */
export default Runtime.plugin({
  id: 'runtime-docker',
  config,
  needs: { network: optional(Network) },
  declares: { invokesCni: false, images: true, networkNamespaces: true, survivesRestart: true },
  probe: ({ socket }) => probeSocket(socket),
  exclusiveParts: ({ socket }) => [`the containers of ${socket}`],
  create: ({ config: settings, network }, { clock, log, dataDir }) => new DockerRuntime(settings, network, { clock, log, dataDir }),
});
