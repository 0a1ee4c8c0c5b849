import type { ImageConfig } from '@oarlock/oci/image-config';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';

/** What the driver prepares for the launcher of a container. It is stored with the container. */
export interface PreparedContainer {
  readonly root: RootFilesystem;
  readonly image: Pick<ImageConfig, 'entrypoint' | 'cmd' | 'env' | 'user' | 'workingDir'>;
  /** The files of image volumes, by the index of the mount in the container's config. */
  readonly volumes: Readonly<Record<string, RootFilesystem>>;
}

/** Returns the command line of a container: `command` replaces the image's entrypoint and its default arguments; `args` replaces only the arguments. */
export function commandLine(
  { command, args }: { readonly command: readonly string[]; readonly args: readonly string[] },
  { entrypoint, cmd }: PreparedContainer['image'],
): readonly string[] {
  if (command.length > 0) return [...command, ...args];
  return [...entrypoint, ...(args.length > 0 ? args : cmd)];
}
