import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import type {
  AdoptedContainer,
  ContainerLauncher,
  ExecCommand,
  SandboxContainer,
  StartedContainer,
} from '@oarlock/process-supervisor/containers/container-launcher';
import type { ContainerProcess } from '@oarlock/process-supervisor/containers/container-process';
import { cgroupPath } from '@oarlock/process-supervisor/containers/containers';
import type { ContainerRecord, PodStore } from '@oarlock/process-supervisor/containers/pod-store';
import type { HostServices } from '@oarlock/process-supervisor/containers/process-group';
import type { Cgroup, CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { SupervisorError, type SandboxRecord } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';
import { isMounted, mountRoot, unmountRoot } from '@oarlock/oci/snapshots/mount-root';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { commandLine, type PreparedContainer } from '../spec/prepared-container.ts';
import { containerSpec, type NodeFeatures } from '../spec/container-spec.ts';
import { containerUser } from '../spec/container-user.ts';
import { overlayLayers, readInLayers, readInRoot } from '../spec/root-files.ts';
import type { RuntimeSpec } from '../spec/runtime-spec.ts';
import type { ContainerProgram } from './container-program.ts';
import { mountVolumes, volumeDirectory } from './image-volumes.ts';
import { adoptedExit, adoptedStreams, isSame, OciProcess, readExit } from './oci-process.ts';
import { resolveMountSources } from './mount-sources.ts';
import type { PodResourceManager } from './pod-resources.ts';
import { readSpec, specFile } from './stored-spec.ts';

export interface OciLauncherOptions {
  readonly host: HostServices;
  readonly store: Pick<PodStore, 'directoryOf'>;
  readonly cgroups: CgroupManager | undefined;
  readonly node: NodeFeatures;
  readonly log: Logger;
  readonly pods: PodResourceManager;
  readonly program: ContainerProgram;
  /** False for an ordinary user: then the container mounts its root directory and its image volumes itself, in its own namespaces. */
  readonly mountsRoots: boolean;
}

/** What CRI runtimes report for a container whose exit code is lost. */
const lost = { exitCode: 255, reason: 'Unknown' } as const;

/** Runs containers with an OCI runtime. They, and the processes that wait for them, outlive the supervisor. */
export class OciLauncher implements ContainerLauncher {
  readonly #options: OciLauncherOptions;
  /** The first processes of running containers, by container id. */
  readonly #pids = new Map<string, number>();

  constructor(options: OciLauncherOptions) {
    this.#options = options;
  }

  check(config: ContainerConfig): void {
    if (config.tty && this.#options.host.tools.script === undefined)
      throw new SupervisorError('Unsupported', "terminals are not supported: util-linux's script is not installed");
    if (config.cdiDevices !== undefined && config.cdiDevices.length > 0)
      throw new SupervisorError('Unsupported', `devices of the Container Device Interface are not supported: ${config.cdiDevices[0]}`);
  }

  async start(container: SandboxContainer): Promise<StartedContainer> {
    const { record, sandbox } = container;
    const { program, cgroups } = this.#options;
    const directory = this.#directoryOf(record);
    try {
      const spec = await this.#prepare(container, directory);
      writeFileSync(join(directory, specFile), JSON.stringify(spec), { mode: 0o600 });
      const { process, cgroup } = await program.run({ record, sandbox, directory }, spec);
      this.#pids.set(record.id, process.pid);
      const { uid, gid, additionalGids: supplementalGroups } = spec.process.user;
      return {
        process,
        cgroup,
        data: { user: { uid, gid, supplementalGroups }, ...(cgroups && { cgroup: cgroupPath({ record, sandbox }) }) },
      };
    } catch (error) {
      await this.#cleanUp(container, undefined);
      throw error;
    }
  }

  async exec(
    { record, sandbox }: SandboxContainer,
    { pid }: ContainerProcess,
    { command, tty, stdin, cgroup }: ExecCommand & { readonly cgroup: Cgroup | undefined },
  ): Promise<ContainerProcess> {
    const directory = this.#directoryOf(record);
    const { oomScoreAdj: _, ...process } = readSpec(directory).process;
    const terminal = tty && !process.env.some((variable) => variable.startsWith('TERM=')) ? ['TERM=xterm'] : [];
    const spec = { ...process, terminal: tty, args: command, env: [...process.env, ...terminal] };
    return this.#options.program.exec({ record, sandbox, directory }, spec, { pid, stdin, cgroup });
  }

  /** Continues with a container that runs; its holder keeps the exit code of one that ended meanwhile. */
  adopt({ record, sandbox }: SandboxContainer, rebooted: boolean): AdoptedContainer {
    const { cgroups, host } = this.#options;
    const directory = this.#directoryOf(record);
    const identity = { pid: record.pid ?? 0, started: record.pidStarted };
    if (rebooted || !isSame(identity)) {
      const exit = rebooted ? undefined : readExit(directory);
      const cgroup = cgroups?.find(cgroupPath({ record, sandbox }));
      void this.#cleanUp({ record, sandbox }, cgroup).catch((error: unknown) =>
        this.#options.log.warn({ error: String(error), container: record.id }, 'cannot remove what is left of a container'),
      );
      if (!exit) return { ...lost, message: 'the exit code of the container was lost' };
      return { ...exit, reason: exit.exitCode === 0 ? 'Completed' : 'Error' };
    }
    this.#pids.set(record.id, identity.pid);
    const { tty } = record.config;
    const process = new OciProcess({
      ...identity,
      ...adoptedStreams(directory, record.config),
      tty,
      exited: adoptedExit(identity, directory, host.clock),
      stty: host.tools.stty,
    });
    return { process, cgroup: cgroups?.find(cgroupPath({ record, sandbox })) };
  }

  /** Does nothing: the control group and the process namespace have every process of a container. */
  async sweep(): Promise<void> {}

  async ended(container: SandboxContainer, cgroup: Cgroup | undefined): Promise<void> {
    this.#pids.delete(container.record.id);
    await this.#cleanUp(container, cgroup);
  }

  async removed(record: ContainerRecord): Promise<void> {
    await this.#unmount(record);
  }

  sandboxCreated(sandbox: SandboxRecord): void {
    this.#options.pods.open(sandbox).catch(() => {}); // the first container repeats it and gets the error
  }

  async sandboxStopped({ id }: SandboxRecord): Promise<void> {
    await this.#options.pods.close(id);
  }

  async #prepare(container: SandboxContainer, directory: string): Promise<RuntimeSpec> {
    const { record, sandbox } = container;
    const prepared = preparedOf(record);
    const { namespaces, ...security } = record.config.linux.security;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const { mountsRoots } = this.#options;
    const target = join(directory, 'rootfs');
    const [root, pod, volumes] = await Promise.all([
      mountsRoots ? mountRoot(prepared.root, target) : makeTarget(prepared.root, target),
      this.#options.pods.open(sandbox),
      mountVolumes(record.config, prepared, { directory, mountsRoots }),
    ]);
    const config = { ...record.config, mounts: resolveMountSources(record.config.mounts) };
    if (namespaces.pid === 'TARGET' && !this.#options.mountsRoots)
      throw new SupervisorError('Unsupported', 'a container cannot join the process namespace of another without root');
    const targetPid = namespaces.pid === 'TARGET' ? this.#pids.get(namespaces.targetId ?? '') : undefined;
    if (namespaces.pid === 'TARGET' && targetPid === undefined)
      throw new SupervisorError('FailedPrecondition', `target container ${namespaces.targetId} is not running`);
    const pid = targetPid !== undefined ? `/proc/${targetPid}/ns/pid` : namespaces.pid === 'POD' ? pod.shared.pid : undefined;
    const ipc = namespaces.ipc === 'POD' ? pod.shared.ipc : undefined;
    return containerSpec({
      sandbox,
      record: { ...record, config },
      prepared,
      root,
      user: containerUser({ ...security, namespaces }, prepared.image.user, fileReader(prepared.root, root)),
      mounts: { shm: pod.shm, files: writeFiles(sandbox.config, directory), volumes },
      shared: { ...(ipc !== undefined && { ipc }), ...(pid !== undefined && { pid }) },
      node: this.#options.node,
    });
  }

  async #cleanUp({ record, sandbox }: SandboxContainer, cgroup: Cgroup | undefined): Promise<void> {
    await this.#options.program.delete({ record, sandbox, directory: this.#directoryOf(record) }, cgroup);
    await this.#unmount(record);
  }

  async #unmount(record: ContainerRecord): Promise<void> {
    const directory = this.#directoryOf(record);
    const volumes = Object.keys(preparedOf(record).volumes).map((index) => volumeDirectory(directory, index));
    for (const target of [...volumes, join(directory, 'rootfs')]) await unmountRoot(target);
  }

  #directoryOf(record: ContainerRecord): string {
    return this.#options.store.directoryOf(record);
  }
}

/** Checks what the driver prepared. @throws SupervisorError if a container was made by another runtime */
function preparedOf({ id, prepared, config }: ContainerRecord): PreparedContainer {
  const found = prepared as PreparedContainer | undefined;
  if (!found?.root) throw new SupervisorError('Internal', `container ${id} has no root directory`);
  commandLine(config, found.image);
  return found;
}

/** Returns the directory at which a container mounts its root itself. */
function makeTarget(root: RootFilesystem, target: string): string {
  if (root.path !== undefined) return root.path;
  mkdirSync(target, { recursive: true, mode: 0o755 });
  return target;
}

/** Returns a function that reads files of a root directory, whether it is mounted or not. */
function fileReader({ mount }: RootFilesystem, target: string): (path: string) => string {
  if (mount === undefined || isMounted(target)) return (path) => readInRoot(target, path);
  const layers = overlayLayers(mount.options, mount.directory);
  return (path) => readInLayers(layers, path);
}

/** Writes the files that runtimes create. Returns their paths by the paths that the container sees. */
function writeFiles({ hostname, dns, linux }: PodSandboxConfig, directory: string): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  const write = (path: string, name: string, text: string) => {
    files[path] = join(directory, name);
    writeFileSync(files[path], text, { mode: 0o644 });
  };
  if (linux.security.namespaces.network !== 'NODE') write('/etc/hostname', 'hostname', `${hostname}\n`);
  const lines = [
    ...(dns?.searches.length ? [`search ${dns.searches.join(' ')}`] : []),
    ...(dns?.servers ?? []).map((server) => `nameserver ${server}`),
    ...(dns?.options.length ? [`options ${dns.options.join(' ')}`] : []),
  ].map((line) => `${line.replaceAll('\n', ' ')}\n`);
  if (lines.length > 0) write('/etc/resolv.conf', 'resolv.conf', lines.join(''));
  return files;
}
