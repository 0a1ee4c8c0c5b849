import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { Mount } from '@oarlock/spi/runtime';
import { Covers, type Cover } from './covers.ts';
import { createMountPoint, depthOf, realPaths, realTarget, statOrUndefined } from './file-paths.ts';
import { fstabLine } from './fstab.ts';
import type { HiddenDirectories, IsolationMode } from './isolation.ts';
import { isWithin, type MountEntry } from './mount-table.ts';

export interface PodViewRequest {
  readonly mode: IsolationMode;
  readonly hidden: HiddenDirectories;
  readonly table: readonly MountEntry[];
  /** The container's own directory, and that of its pod. Both are below a hidden directory. */
  readonly directory: string;
  readonly podDirectory: string;
  /** The home directory of the container's user. */
  readonly home: string;
  readonly owner: { readonly uid?: number; readonly gid?: number };
  readonly mounts: readonly Mount[];
  /** The container's directories in /sys/fs/cgroup. */
  readonly cgroups: readonly string[];
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
  /** Programs that run with the privileges of the wrapper, after the volumes are mounted. */
  readonly wrapperPrograms: readonly string[];
}

/** What a container sees of the file system of the node, as mounts to make in its mount namespace. */
export interface PodView {
  /** An fstab(5) file, in the order in which its entries are mounted. */
  readonly fstab: string;
  /** Mount points to remount read-only afterwards. */
  readonly readOnly: readonly string[];
  /** A path that must not exist afterwards. */
  readonly sentinel: string;
  /** A directory with links to all volumes; empty if all are mounted at their paths. */
  readonly root: string;
  /** Where the container finds each volume, in the order of the request. */
  readonly volumePaths: readonly string[];
  /** Files to verify after the mounts: the container may have replaced a part of their path on the node meanwhile. */
  readonly checks: readonly FileCheck[];
  readonly hidden: readonly string[];
  readonly visible: readonly string[];
}

/** A path of the container, and the `DEVICE:INODE` that must be there. */
export interface FileCheck {
  readonly path: string;
  readonly file: string;
}

/** A directory or file of the node, or of the container, at a path of the container. */
interface Placement {
  readonly source: string;
  readonly at: string;
  readonly isDirectory: boolean;
  readonly readonly: boolean;
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
 * Creates the directories and the fstab of a container's view: the file system of the node, read-only, in which the hidden directories, /tmp,
 * /var/tmp, /run, /dev and the home directory are replaced by directories of the container. Volumes are mounted at their paths if the
 * mount point exists on the node or is below a replaced directory; others are linked below `root`.
 *
 * Nothing that the container can change is on the path of a mount: mount points are created only in new directories of the container, and
 * volumes inside other volumes are left out.
 */
export function createPodView(request: PodViewRequest): PodView {
  return new PodViewBuilder(request).build();
}

class PodViewBuilder {
  readonly #request: PodViewRequest;
  readonly #directory: string;
  readonly #covers: Covers;
  readonly #placements: Placement[] = [];
  /** Paths of volumes, whose content the container may control: no mount point is created in them. */
  readonly #volumes: string[] = [];
  readonly #checks: FileCheck[] = [];
  #count = 0;

  constructor(request: PodViewRequest) {
    this.#request = request;
    this.#directory = join(request.directory, 'view');
    mkdirSync(this.#directory, { recursive: true, mode: 0o755 });
    this.#covers = new Covers(request, (name, mode) => this.#create(name, mode));
  }

  build(): PodView {
    const volumePaths = this.#placeVolumes();
    this.#placeOwnDirectories();
    this.#placeNodeFiles();
    const root = this.#linkVolumes(volumePaths);
    const lines = [...this.#placementLines(), ...this.#kernelLines(), ...this.#coverLines()];
    const fstab = join(this.#directory, 'fstab');
    writeFileSync(fstab, lines.join(''), { mode: 0o600 });
    return {
      fstab,
      readOnly: this.#readOnlyMounts(),
      sentinel: join(this.#directory, 'fstab'),
      root,
      volumePaths,
      checks: this.#checks,
      hidden: this.#covers.list.map(({ at }) => at),
      visible: this.#placements.map(({ at }) => at),
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
    const { hostPath, readonly } = mount;
    const source = statOrUndefined(hostPath);
    if (at === '/' || !source || this.#volumes.some((volume) => isWithin(at, volume))) return false;
    const isDirectory = source.isDirectory();
    const cover = this.#covers.of(at);
    if (cover?.at === at) {
      if (!cover.writable || !isDirectory || this.#volumes.some((volume) => isWithin(volume, at))) return false;
      cover.source = hostPath;
      cover.writable = readonly !== true;
      this.#addVolume(at, mount);
      return true;
    }
    if (!cover && (statOrUndefined(at)?.isDirectory() !== isDirectory || !this.#covers.mayMountAt(at, this.#request.mounts))) return false;
    this.#placements.push({ source: hostPath, at, isDirectory, readonly: readonly === true });
    this.#addVolume(at, mount);
    return true;
  }

  #addVolume(at: string, { checkedFile }: Mount): void {
    this.#volumes.push(at);
    if (checkedFile !== undefined) this.#checks.push({ path: at, file: checkedFile });
  }

  /** Shows a volume that cannot be mounted at its path at the path that it has on the node. */
  #showSource(mount: Mount): void {
    const { hostPath, readonly } = mount;
    const [real = hostPath] = realPaths(hostPath);
    const found = statOrUndefined(real);
    const reveals = this.#covers.hidden.some((path) => isWithin(path, real));
    const overlaps = this.#volumes.some((volume) => isWithin(real, volume) || isWithin(volume, real));
    if (!found || reveals || overlaps || !this.#covers.of(real)) return;
    this.#placements.push({ source: hostPath, at: real, isDirectory: found.isDirectory(), readonly: readonly === true });
    this.#addVolume(real, mount);
  }

  /** Places the directories that the container can write to although it has no volume there. */
  #placeOwnDirectories(): void {
    const { home, podDirectory } = this.#request;
    const [own] = realPaths(home);
    if (own !== undefined && this.#covers.of(own) && this.#covers.of(own)?.at !== own)
      this.#place({ source: () => this.#create('home', 0o700), at: own, isDirectory: true, readonly: false });
    const shared = join(podDirectory, 'shm');
    mkdirSync(shared, { recursive: true });
    chmodSync(shared, 0o1777);
    this.#place({ source: () => shared, at: '/dev/shm', isDirectory: true, readonly: false });
  }

  #placeNodeFiles(): void {
    const { hidden, cgroups } = this.#request;
    for (const name of devices) this.#place({ source: () => `/dev/${name}`, at: `/dev/${name}`, isDirectory: false, readonly: false });
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
      this.#place({ source: () => real, at: real, isDirectory: found.isDirectory(), readonly: true });
    }
  }

  /** Adds a placement unless a volume has its place. */
  #place({ source, at, ...rest }: Omit<Placement, 'source'> & { source(): string }): void {
    if (this.#volumes.some((volume) => isWithin(at, volume) || isWithin(volume, at))) return;
    if (this.#placements.some((other) => other.at === at)) return;
    this.#placements.push({ source: source(), at, ...rest });
  }

  /** Creates a tree of links to the volumes if not all are at their paths. */
  #linkVolumes(volumePaths: readonly string[]): string {
    const { mounts, directory } = this.#request;
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
    this.#place({ source: () => root, at: real, isDirectory: true, readonly: true });
    return root;
  }

  #placementLines(): string[] {
    const ordered = [...this.#placements].sort((a, b) => depthOf(a.at) - depthOf(b.at));
    return ordered.map(({ source, at, isDirectory, readonly }) => {
      const cover = this.#covers.of(at);
      const target = cover ? join(cover.source, relative(cover.at, at)) : at;
      if (cover) createMountPoint(cover.source, target, isDirectory);
      return fstabLine(source, target, { options: readonly ? 'rbind,ro' : 'rbind' });
    });
  }

  /** Returns the entries of /dev/pts and of what the kernel would let root change. */
  #kernelLines(): string[] {
    const { mode, maskedPaths, readonlyPaths } = this.#request;
    const dev = this.#covers.list.find(({ at }) => at === '/dev');
    const lines: string[] = [];
    if (dev) {
      const terminals = join(dev.source, 'pts');
      mkdirSync(terminals, { recursive: true, mode: 0o755 });
      for (const [name, target] of Object.entries(deviceLinks)) symlinkSync(target, join(dev.source, name));
      lines.push(fstabLine('oarlock-pts', terminals, { type: 'devpts', options: 'newinstance,ptmxmode=0666,mode=0620' }));
    }
    if (mode === 'user') return lines; // the user is not root outside of its namespace
    for (const path of readonlyPaths) if (existsSync(path)) lines.push(fstabLine(path, path, { options: 'rbind,ro' }));
    const empty = this.#create('masked', 0o755);
    for (const path of maskedPaths) {
      const found = statOrUndefined(path);
      if (found && !this.#covers.of(path)) lines.push(fstabLine(found.isDirectory() ? empty : '/dev/null', path, { options: 'bind' }));
    }
    return lines;
  }

  /** Returns the entries of the covers. The cover of the container's own directory is the last: it hides the others' sources. */
  #coverLines(): string[] {
    const [directory = this.#directory] = realPaths(this.#directory);
    const hidesSources = ({ at }: Cover) => isWithin(directory, at);
    const ordered = [...this.#covers.list.filter((cover) => !hidesSources(cover)), ...this.#covers.list.filter(hidesSources)];
    return ordered.map(({ source, at, writable }) => fstabLine(source, at, { options: writable ? 'rbind' : 'rbind,ro' }));
  }

  #readOnlyMounts(): readonly string[] {
    const { mode, table } = this.#request;
    const direct = this.#placements.map(({ at }) => at).filter((at) => !this.#covers.of(at));
    const skipped = [...direct, '/proc', ...(mode === 'user' ? ['/sys'] : [])]; // only root could change /sys
    const others = table
      .filter(({ mountPoint, writable }) => writable && mountPoint !== '/' && !this.#covers.of(mountPoint))
      .map(({ mountPoint }) => mountPoint)
      // a mount that this user cannot reach is not reachable for its pods
      .filter((path) => !skipped.some((tree) => isWithin(path, tree)) && statOrUndefined(path) !== undefined);
    return [...new Set(['/', ...others])];
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
