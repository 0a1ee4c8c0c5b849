import { homedir } from 'node:os';
import { join } from 'node:path';
import { available } from '@oarlock/kernel/plugin';
import { optional } from '@oarlock/kernel/slot';
import { CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { Network } from '@oarlock/spi/network';
import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { OciRuntime } from './oci-runtime.ts';
import { chooseMode, probe } from './probe.ts';

/** The host and port of a proxy, or its URL. The value may contain a password, so the message does not. */
const proxyUrl = z.string().refine(isProxyUrl, 'must be the URL of an http or https proxy, or its host and port');

function isProxyUrl(text: string): boolean {
  try {
    return ['http:', 'https:'].includes(new URL(text.includes('://') ? text : `http://${text}`).protocol);
  } catch {
    return false;
  }
}

export default Runtime.plugin({
  id: 'runtime-oci',
  config: z.strictObject({
    /** Whether the start fails on a machine that cannot run containers. If false, images cannot be pulled there, and the pods report why. */
    required: z.boolean().default(true),
    /** Whether pods keep running after an orderly stop of Oarlock. After a crash they always do. */
    keepPods: z.boolean().default(false),
    stopGraceSeconds: z.number().min(0).max(3600).default(2),
    idleSeconds: z.number().min(1).max(86_400).default(30),
    /** Directory with `HOST/hosts.toml` in the layout of containerd, for mirrors and registries without TLS. */
    registryConfigDirectory: z.string().startsWith('/').default('/etc/containerd/certs.d'),
    /** Proxies for registries. By default those of the environment of Oarlock: HTTP_PROXY, HTTPS_PROXY and NO_PROXY. */
    proxy: z.strictObject({ http: proxyUrl.optional(), https: proxyUrl.optional(), noProxy: z.string().optional() }).default({}),
    /** How root directories of containers are made; `auto` takes the first that works. */
    snapshotter: z.enum(['auto', 'overlayfs', 'fuse-overlayfs', 'copy']).default('auto'),
  }),
  needs: { network: optional(Network) },
  declares: { invokesCni: false, images: true, survivesRestart: true, networkNamespaces: 'root', proxyEnvironment: true },
  probe: async ({ required }) => (required ? probe() : available),
  create: ({ config, network }, { clock, log, dataDir }) => {
    const { registryConfigDirectory: hostsDirectory, snapshotter } = config;
    const { http: httpProxy, https: httpsProxy, noProxy } = config.proxy;
    const proxy = { httpProxy, httpsProxy, noProxy };
    const dockerConfig = join(homedir(), '.docker', 'config.json');
    const mode = chooseMode();
    return new OciRuntime(config, network, {
      clock,
      log,
      dataDir,
      mode,
      probe,
      hasCgroups: () => CgroupManager.open(clock) !== undefined,
      openImages: async (directory) => {
        const { openImageStore } = await import('@oarlock/oci/store/open-image-store');
        return openImageStore({ directory, clock, log, hostsDirectory, dockerConfig, snapshotter, proxy, fuse: mode.user === 'root' });
      },
    });
  },
});
