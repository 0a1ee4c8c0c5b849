import { basename, dirname } from 'node:path';
import { realPaths, statOrUndefined } from './file-paths.ts';
import type { HiddenDirectories, ViewMode } from './isolation.ts';
import { aliasesOf, isWithin, type MountEntry } from '@oarlock/process-supervisor/host/mount-table';

/** A directory of the container that covers one of the node. */
export interface Cover {
  readonly at: string;
  readonly source: string;
  readonly writable: boolean;
  readonly mode: number;
}

/** Directories that root can read and that hold files of other containers or of the cluster. */
const containerState = ['/var/lib/kubelet', '/var/lib/docker', '/var/lib/containerd', '/var/lib/containers', '/var/lib/etcd'] as const;
/** Where the programs and libraries of the wrappers are. A volume must not replace them: they run with privileges. */
const libraryTrees = ['/lib', '/lib32', '/lib64', '/libx32', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libx32', '/nix'] as const;
const loaderFiles = ['/etc/ld.so.cache', '/etc/ld.so.preload', '/etc/ld.so.conf', '/etc/ld.so.conf.d', '/etc/ld-musl-x86_64.path'] as const;
const kernelTrees = ['/proc', '/sys', '/dev'] as const;

export interface CoversRequest {
  readonly mode: ViewMode;
  readonly hidden: HiddenDirectories;
  readonly table: readonly MountEntry[];
  readonly home: string;
  readonly wrapperPrograms: readonly string[];
}

/** The directories of the node that a container does not see, none of them below another. */
export class Covers {
  readonly list: readonly Cover[];
  /** Directories with files of the node, also if a cover of a directory above hides them. */
  readonly hidden: readonly string[];
  readonly #protected: readonly string[];

  /** `create` creates a directory of the container that replaces one of the node. */
  constructor(request: CoversRequest, create: (name: string, mode: number) => string) {
    this.hidden = request.mode === 'shared' ? [] : hiddenDirectories(request);
    this.#protected = protectedPaths(request.wrapperPrograms);
    const list: Cover[] = [];
    for (const cover of request.mode === 'shared' ? [] : this.#candidates(request))
      if (!list.some(({ at }) => isWithin(cover.at, at))) list.push({ ...cover, source: create(basename(cover.at), cover.mode) });
    this.list = list;
  }

  of(path: string): Cover | undefined {
    return this.list.find(({ at }) => isWithin(path, at));
  }

  /** Returns true if a volume at the path replaces nothing that the wrappers need. */
  mayMountAt(at: string): boolean {
    return !this.#protected.some((path) => isWithin(path, at) || isWithin(at, path));
  }

  /** Returns the directories to cover, those above others first; of two covers of one directory, the first counts. */
  #candidates({ mode, hidden, home, table }: CoversRequest): readonly Omit<Cover, 'source'>[] {
    const sys = table.map(({ mountPoint }) => mountPoint).filter((path) => path.startsWith('/sys/'));
    const requested: readonly (readonly [path: string, writable: boolean, mode: number])[] = [
      ['/tmp', true, 0o1777],
      ['/var/tmp', true, 0o1777],
      ['/run', true, 0o755],
      ['/dev', false, 0o755],
      [home, true, 0o700],
      ...[hidden.home, '/home', '/root', ...this.hidden, ...sys, ...(mode === 'root' ? containerState : [])].map(
        (path) => [path, false, 0o755] as const,
      ),
    ];
    return requested
      .flatMap(([path, writable, permissions]) => realPaths(path).map((at) => ({ at, writable, mode: permissions })))
      .filter(({ at }) => statOrUndefined(at)?.isDirectory() === true && (this.hidden.includes(at) || this.#mayCover(at)))
      .sort((a, b) => a.at.length - b.at.length);
  }

  /** Returns false for a home directory such as `/`, `/usr` or `/bin`, which system users have. */
  #mayCover(path: string): boolean {
    if (path === '/dev' || path.startsWith('/sys/')) return true;
    return (
      path !== '/' && path !== '/var' && path !== '/etc' && !this.#protected.some((tree) => isWithin(tree, path) || isWithin(path, tree))
    );
  }
}

function hiddenDirectories({ hidden, table }: CoversRequest): readonly string[] {
  const directories = hidden.directories.flatMap((path) => realPaths(path));
  return [...new Set(directories.flatMap((path) => [path, ...aliasesOf(path, table)]))];
}

function protectedPaths(wrapperPrograms: readonly string[]): readonly string[] {
  const programs = wrapperPrograms.flatMap((path) => [path, ...realPaths(path)]).map((path) => dirname(path));
  const paths = [...libraryTrees, ...loaderFiles, ...programs];
  return [...new Set([...paths, ...paths.flatMap((path) => realPaths(path)), ...kernelTrees])];
}
