import { homedir } from 'node:os';
import { join } from 'node:path';
import { optional } from '@oarlock/kernel/slot';
import { openImageStore } from '@oarlock/oci/store/open-image-store';
import { Network } from '@oarlock/spi/network';
import { Runtime, RuntimeError } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { OciRuntime } from './oci-runtime.ts';
import { chooseMode, probe } from './probe.ts';

export default Runtime.plugin({
  id: 'runtime-oci',
  config: z.strictObject({
    /** Whether pods keep running after an orderly stop of Oarlock. After a crash they always do. */
    keepPods: z.boolean().default(false),
    stopGraceSeconds: z.number().min(0).max(3600).default(2),
    idleSeconds: z.number().min(1).max(86_400).default(30),
    /** Directory with `HOST/hosts.toml` in the layout of containerd, for mirrors and registries without TLS. */
    registryConfigDirectory: z.string().startsWith('/').default('/etc/containerd/certs.d'),
    /** How root directories of containers are made; `auto` takes the first that works. */
    snapshotter: z.enum(['auto', 'overlayfs', 'fuse-overlayfs', 'copy']).default('auto'),
  }),
  needs: { network: optional(Network) },
  declares: { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: 'root' },
  probe,
  create: ({ config, network }, { clock, log, dataDir }) => {
    const mode = chooseMode();
    if ('unavailable' in mode) throw new RuntimeError('FailedPrecondition', mode.unavailable);
    const { registryConfigDirectory: hostsDirectory, snapshotter } = config;
    const dockerConfig = join(homedir(), '.docker', 'config.json');
    return new OciRuntime(config, network, {
      clock,
      log,
      dataDir,
      mode,
      openImages: (directory) => openImageStore({ directory, clock, log, hostsDirectory, dockerConfig, snapshotter }),
    });
  },
});
