import { homedir } from 'node:os';

/** How a container is separated from the node. `root` and `user` name the rights with which its namespaces are created. */
export type IsolationMode = 'root' | 'user';

/** How the file system of a container is made. `shared`: by root, with the files of the node, for a container that is not isolated. */
export type ViewMode = IsolationMode | 'shared';

/** What the probe found: the mode in which pods are isolated, or why they cannot be and whether their volumes are mounted nevertheless. */
export type Isolation =
  | { readonly mode: IsolationMode }
  | { readonly mode: 'none'; readonly reason: string; readonly mountsVolumes: boolean };

/** The directories that containers must not see, apart from those that every system has. */
export interface HiddenDirectories {
  /** Directories with files of the node: the data directory, and those that the config names. */
  readonly directories: readonly string[];
  /** The home directory of Oarlock's user. */
  readonly home: string;
  /** Directories of programs that stay visible, read-only, if they are below a hidden directory. */
  readonly programs: readonly string[];
}

/** How a running container was isolated, for `exec`. */
export interface ContainerIsolation {
  readonly mode: IsolationMode;
  /** True if it has a process namespace of its own. */
  readonly processes: boolean;
  /** Covered directories, and what is visible in them. */
  readonly hidden: readonly string[];
  readonly visible: readonly string[];
  /** Where the container finds its volumes, in the order of its mounts. */
  readonly volumePaths: readonly string[];
}

/** Returns the directories that isolated containers do not see. `path` has directories of programs with ":" between them. */
export function hiddenDirectories({
  dataDir,
  hiddenPaths,
  path,
}: {
  readonly dataDir: string;
  readonly hiddenPaths: readonly string[];
  readonly path: string;
}): HiddenDirectories {
  return { directories: [dataDir, ...hiddenPaths], home: homedir(), programs: path.split(':') };
}
