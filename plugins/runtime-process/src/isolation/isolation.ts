import { homedir } from 'node:os';
import type { IsolationMode } from '@oarlock/process-supervisor/protocol/isolation';

/** How the file system of a container is made. `shared`: by root, with the files of the node, for a container that is not isolated. */
export type ViewMode = IsolationMode | 'shared';

/** The directories that containers must not see, apart from those that every system has. */
export interface HiddenDirectories {
  /** Directories with files of the node: the data directory, and those that the config names. */
  readonly directories: readonly string[];
  /** The home directory of Oarlock's user. */
  readonly home: string;
  /** Directories of programs that stay visible, read-only, if they are below a hidden directory. */
  readonly programs: readonly string[];
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
