import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { Mount } from '@oarlock/spi/runtime';
import { Covers } from './covers.ts';
import { depthOf, realPaths, realTarget, statOrUndefined } from './file-paths.ts';
import { escapeMountPoint, fstabLine } from './fstab.ts';
import type { HiddenDirectories, ViewMode } from './isolation.ts';
import { isWithin, type MountEntry } from '@oarlock/process-supervisor/host/mount-table';
import { MountTree, type MountItem, type NestedMount } from './mount-tree.ts';
import { createNestedMountPoint } from './nested-mount-points.ts';

export interface PodViewRequest {
  readonly mode: ViewMode;
  readonly hidden: HiddenDirectories;
  readonly table: readonly MountEntry[];
  /** The container's own directory, and that of its pod. Both are below a hidden directory. */
  readonly directory: string;
  readonly podDirectory: string;
  /** The home directory of the container's user. */
  readonly home: string;
  readonly owner: { readonly uid?: number; readonly gid?: number };
  readonly mounts: readonly Mount[];
  /** Files of the container, such as /etc/resolv.conf, that replace those of the node if the node has them and no volume is mounted there. */
  readonly files: Readonly<Record<string, string>>;
  /** The container's directories in /sys/fs/cgroup. */
  readonly cgroups: readonly string[];
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
  /** Programs that run with the privileges of the wrapper, after the volumes are mounted. */
  readonly wrapperPrograms: readonly string[];
}

/** What a container sees of the file system of the node, as mounts to make in its mount namespace. */
export interface PodView {
  /** The directory that becomes the root of the container. */
  readonly newRoot: string;
  /** An fstab(5) file, in the order in which its entries are mounted. */
  readonly fstab: string;
  /** Mounts below volumes, to make afterwards one after the other. `escapedTarget` is the target as mountinfo shows it. */
  readonly nested: readonly (NestedMount & { readonly escapedTarget: string })[];
  /** A path that must not exist in the new root. */
  readonly sentinel: string;
  /** A directory with links to the volumes that are not mounted at their paths; empty if all are. */
  readonly root: string;
  /** Where the container finds each volume, in the order of the request. */
  readonly volumePaths: readonly string[];
  /** Files to verify after the mounts: the container may have replaced a part of their path on the node meanwhile. */
  readonly checks: readonly FileCheck[];
  readonly hidden: readonly string[];
  readonly visible: readonly string[];
}

/** A path below the new root before it becomes the root, and the `DEVICE:INODE` that must be there. */
export interface FileCheck {
  readonly path: string;
  readonly file: string;
}

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty'] as const;
const deviceLinks = {
  fd: '/proc/self/fd',
  stdin: '/proc/self/fd/0',
  stdout: '/proc/self/fd/1',
  stderr: '/proc/self/fd/2',
  ptmx: 'pts/ptmx',
};

/**
 * Creates the directories and the fstab of a container's view: a new root with the files of the node and with the container's volumes. For an
 * isolated container the files of the node are read-only, and the hidden directories, /tmp, /var/tmp, /run, /dev and the home directory are
 * replaced by directories of the container.
 *
 * Volumes are mounted at their paths, except over `/`, /proc, /sys and the directories of programs and libraries: wrappers with more privileges
 * than the container run from there. Those volumes are linked below `root`.
 *
 * All mounts are made below the new root while the sources are visible at their paths on the node. Nothing that the container can change is on the
 * path of a mount, except for volumes below volumes, whose place is verified after each mount.
 * @throws NodeJS.ErrnoException if a mount point in a volume cannot be created
 */
export function createPodView(request: PodViewRequest): PodView {
  return new PodViewBuilder(request).build();
}

class PodViewBuilder {
  readonly #request: PodViewRequest;
  readonly #directory: string;
  readonly #newRoot: string;
  readonly #covers: Covers;
  readonly #tree: MountTree;
  readonly #checks: FileCheck[] = [];
  #count = 0;

  constructor(request: PodViewRequest) {
    this.#request = request;
    this.#directory = join(request.directory, 'view');
    mkdirSync(this.#directory, { recursive: true, mode: 0o755 });
    this.#newRoot = this.#create('root', 0o755);
    const create = (name: string, mode: number) => this.#create(name, mode);
    this.#covers = new Covers(request, create);
    this.#tree = new MountTree({ root: this.#newRoot, table: request.table, readonly: request.mode !== 'shared', create });
  }

  build(): PodView {
    const { mode } = this.#request;
    for (const { at, source, writable } of this.#covers.list)
      this.#tree.add(at, { source, isDirectory: true, readonly: !writable, owner: 'container' });
    const volumePaths = this.#placeVolumes();
    this.#placeFiles();
    if (mode !== 'shared') {
      this.#placeOwnDirectories();
      this.#placeNodeFiles();
    }
    const root = this.#linkVolumes(volumePaths);
    this.#tree.addReadOnlySubmounts((path) => isWithin(path, '/proc') || (mode === 'user' && isWithin(path, '/sys'))); // only root could change /sys
    const { lines, nested } = this.#tree.mounts();
    const fstab = join(this.#directory, 'fstab');
    writeFileSync(fstab, [...lines, ...this.#kernelLines()].join(''), { mode: 0o600 });
    return {
      newRoot: this.#newRoot,
      fstab,
      nested: nested.map(({ volume, at, ...mount }) => {
        this.#createNestedMountPoint(volume, at);
        return { ...mount, escapedTarget: escapeMountPoint(mount.target) };
      }),
      sentinel: fstab,
      root,
      volumePaths,
      checks: this.#checks,
      hidden: this.#covers.list.map(({ at }) => at),
      visible: [...this.#tree.paths('volume'), ...this.#tree.paths('node').filter((at) => this.#covers.of(at))],
    };
  }

  /** Places volumes at their paths. Returns where the container finds each: at its path, or at the path that it has on the node. */
  #placeVolumes(): readonly string[] {
    const { mounts } = this.#request;
    const mountPaths = new Map<Mount, string>();
    const byDepth = [...mounts].sort((a, b) => depthOf(a.containerPath) - depthOf(b.containerPath));
    for (const mount of byDepth) {
      const at = resolve('/', mount.containerPath);
      if (this.#placeVolume(realTarget(at), mount)) mountPaths.set(mount, at);
    }
    for (const mount of [...mounts].sort((a, b) => depthOf(a.hostPath) - depthOf(b.hostPath)))
      if (!mountPaths.has(mount)) this.#showSource(mount);
    return mounts.map((mount) => mountPaths.get(mount) ?? mount.hostPath);
  }

  #placeVolume(at: string, mount: Mount): boolean {
    const { hostPath } = mount;
    const source = statOrUndefined(hostPath);
    if (at === '/' || !source) return false;
    const cover = this.#covers.of(at);
    if (cover?.at === at && (!cover.writable || !source.isDirectory())) return false;
    const isSameOnNode = realPaths(hostPath)[0] === at;
    if (!cover && !isSameOnNode && !this.#covers.mayMountAt(at)) return false;
    return this.#addVolume(at, mount);
  }

  #addVolume(at: string, { hostPath, readonly, checkedFile }: Mount): boolean {
    const isDirectory = statOrUndefined(hostPath)?.isDirectory() === true;
    if (!this.#tree.add(at, { source: hostPath, isDirectory, readonly: readonly === true, owner: 'volume' })) return false;
    if (checkedFile !== undefined) this.#checks.push({ path: join(this.#newRoot, at), file: checkedFile });
    return true;
  }

  /** Shows a volume that cannot be mounted at its path at the path that it has on the node. */
  #showSource(mount: Mount): void {
    const [real = mount.hostPath] = realPaths(mount.hostPath);
    const found = statOrUndefined(real);
    const reveals = this.#covers.hidden.some((path) => isWithin(path, real));
    if (!found || reveals || this.#overlapsVolume(real) || !this.#covers.of(real)) return;
    this.#addVolume(real, mount);
  }

  #overlapsVolume(at: string): boolean {
    return this.#tree.paths('volume').some((volume) => isWithin(at, volume) || isWithin(volume, at));
  }

  #placeFiles(): void {
    for (const [path, source] of Object.entries(this.#request.files)) {
      const at = realTarget(path);
      if (existsSync(path) || this.#covers.of(at))
        this.#place({ source: () => source, at, isDirectory: false, readonly: false, owner: 'volume' });
    }
  }

  /** Places the directories that the container can write to although it has no volume there. */
  #placeOwnDirectories(): void {
    const { home, podDirectory } = this.#request;
    const [own] = realPaths(home);
    if (own !== undefined && this.#covers.of(own) && this.#covers.of(own)?.at !== own)
      this.#place({ source: () => this.#create('home', 0o700), at: own, isDirectory: true, readonly: false, owner: 'volume' });
    const shared = join(podDirectory, 'shm');
    mkdirSync(shared, { recursive: true });
    chmodSync(shared, 0o1777);
    this.#place({ source: () => shared, at: '/dev/shm', isDirectory: true, readonly: false, owner: 'volume' });
  }

  #placeNodeFiles(): void {
    const { hidden, cgroups } = this.#request;
    for (const name of devices)
      this.#place({ source: () => `/dev/${name}`, at: `/dev/${name}`, isDirectory: false, readonly: false, owner: 'node' });
    for (const directory of hidden.programs) {
      this.#show(directory);
      this.#show(resolve(directory, '../lib/node_modules'));
    }
    for (const path of ['/etc/resolv.conf', '/etc/hosts', '/run/current-system']) this.#show(path);
    for (const directory of cgroups) this.#show(directory);
  }

  /** Shows a file or directory of the node read-only if it is below a covered directory. */
  #show(path: string): void {
    for (const real of realPaths(path)) {
      const found = statOrUndefined(real);
      if (!found || !this.#covers.of(real) || this.#covers.hidden.some((each) => isWithin(each, real) || isWithin(real, each))) continue;
      this.#place({ source: () => real, at: real, isDirectory: found.isDirectory(), readonly: true, owner: 'node' });
    }
  }

  /** Adds an item unless a volume has its place. */
  #place({ source, at, ...rest }: Omit<MountItem, 'source'> & { readonly at: string; source(): string }): void {
    const isPlaced = this.#covers.of(at) !== undefined && this.#tree.get(at) !== undefined;
    if (!this.#overlapsVolume(at) && !isPlaced) this.#tree.add(at, { source: source(), ...rest });
  }

  /** Creates a tree of links to the volumes if not all are at their paths. */
  #linkVolumes(volumePaths: readonly string[]): string {
    const { mounts, directory, mode } = this.#request;
    if (mounts.every(({ containerPath }, index) => volumePaths[index] === resolve('/', containerPath))) return '';
    const root = join(directory, 'root');
    const linked: string[] = [];
    mkdirSync(root, { recursive: true, mode: 0o755 });
    const links = mounts.map(({ containerPath }, index) => [resolve('/', containerPath), volumePaths[index] ?? ''] as const);
    for (const [at, target] of links.sort(([a], [b]) => depthOf(a) - depthOf(b))) {
      if (at === '/' || linked.some((above) => isWithin(at, above))) continue; // the link would be created inside a volume
      mkdirSync(dirname(join(root, at)), { recursive: true, mode: 0o755 });
      symlinkSync(target, join(root, at));
      linked.push(at);
    }
    const [real = root] = realPaths(root);
    if (mode !== 'shared') this.#place({ source: () => root, at: real, isDirectory: true, readonly: true, owner: 'node' });
    return root;
  }

  /** Returns the entries of /dev/pts and of what the kernel would let root change. */
  #kernelLines(): string[] {
    const { mode, maskedPaths, readonlyPaths } = this.#request;
    const lines: string[] = [];
    const target = (path: string) => join(this.#newRoot, path);
    const dev = this.#covers.list.find(({ at }) => at === '/dev');
    if (dev) {
      mkdirSync(join(dev.source, 'pts'), { recursive: true, mode: 0o755 });
      for (const [name, link] of Object.entries(deviceLinks)) symlinkSync(link, join(dev.source, name));
      lines.push(fstabLine('oarlock-pts', target('/dev/pts'), { type: 'devpts', options: 'newinstance,ptmxmode=0666,mode=0620' }));
    }
    if (mode !== 'root') return lines; // `user` is not root outside of its namespace
    for (const path of readonlyPaths) if (existsSync(path)) lines.push(fstabLine(path, target(path), { options: 'rbind,ro' }));
    const empty = this.#create('masked', 0o755);
    for (const path of maskedPaths) {
      const found = statOrUndefined(path);
      if (found && !this.#covers.of(path))
        lines.push(fstabLine(found.isDirectory() ? empty : '/dev/null', target(path), { options: 'bind' }));
    }
    return lines;
  }

  #createNestedMountPoint(volume: string, at: string): void {
    const [above, below] = [this.#tree.get(volume), this.#tree.get(at)];
    if (!above || !below) throw new Error(`no mount at ${volume} or ${at}`);
    const { source, readonly } = above;
    try {
      createNestedMountPoint({ source, readonly, path: relative(volume, at), isDirectory: below.isDirectory });
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const reason = code === 'EROFS' ? 'read-only file system' : code === 'ELOOP' || code === 'ENOTDIR' ? 'not a directory' : message;
      throw new Error(`error mounting "${below.source}" to rootfs at "${at}": make mountpoint "${at}": ${reason}`, { cause });
    }
  }

  #create(name: string, mode: number): string {
    const { uid, gid } = this.#request.owner;
    const path = join(this.#directory, `${this.#count++}-${name}`);
    mkdirSync(path);
    chmodSync(path, mode);
    if (mode === 0o700 && uid !== undefined) chownSync(path, uid, gid ?? uid);
    return path;
  }
}
