import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { environmentProxy } from '@oarlock/cluster/process/environment-proxy';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { connectImages } from '@oarlock/oci/control/image-client';
import { commandsOf, type ImageCommands } from '@oarlock/oci/control/image-commands';
import { OciError } from '@oarlock/oci/oci-error';
import { systemClock } from '@oarlock/primitives/clock';
import { CommandError, exitCodes } from '../../common/command-error.ts';
import { stderrLog } from '../../common/stderr-log.ts';

/** The default of `registryConfigDirectory` of runtime-oci. */
const hostsDirectory = '/etc/containerd/certs.d';

/**
 * Runs a command on the images of runtime-oci in a data directory: through the process of the cluster if it runs, otherwise on the store itself.
 * @throws CommandError if the data directory does not exist, if its cluster runs without runtime-oci, or for an invalid name
 */
export async function withImages<T>(directory: string, work: (commands: ImageCommands) => Promise<T>): Promise<T> {
  const dataDir = resolve(directory);
  if (!existsSync(dataDir))
    throw new CommandError(`no cluster has run in ${dataDir}: start one with \`oarlock up\`, or set --data-dir to its data directory`);
  const pluginDir = join(dataDir, 'plugins', 'runtime-oci');
  try {
    const served = await connectImages(pluginDir);
    if (served !== undefined) return await work(served);
    const state = await readProcessState(dataDir);
    if (state !== undefined)
      throw new CommandError(`process ${state.pid} of ${dataDir} does not run runtime-oci, or is starting or stopping`);
    return await withStore(pluginDir, work);
  } catch (cause) {
    if (cause instanceof OciError && cause.code === 'InvalidReference') throw new CommandError(cause.message, exitCodes.usage, { cause });
    throw cause;
  }
}

async function withStore<T>(pluginDir: string, work: (commands: ImageCommands) => Promise<T>): Promise<T> {
  const { openImageStore } = await import('@oarlock/oci/store/open-image-store');
  await mkdir(pluginDir, { recursive: true, mode: 0o700 });
  const { http: httpProxy, https: httpsProxy, noProxy } = environmentProxy(process.env);
  const { images } = await openImageStore({
    directory: join(pluginDir, 'images'),
    clock: systemClock,
    log: stderrLog,
    hostsDirectory,
    dockerConfig: join(homedir(), '.docker', 'config.json'),
    proxy: { httpProxy, httpsProxy, noProxy },
  });
  try {
    return await work(commandsOf(images));
  } finally {
    await images.close();
  }
}
