import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { mountEnvironment } from '@oarlock/oci/snapshots/mount-root';
import { cgroupPath } from '@oarlock/process-supervisor/containers/containers';
import { onTerminal, type Launch } from '@oarlock/process-supervisor/containers/launch';
import { ProcessGroup, type HostServices } from '@oarlock/process-supervisor/containers/process-group';
import type { Cgroup, CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { findProgram, systemPath } from '@oarlock/process-supervisor/host/host-tools';
import { lockedFlags, readMountTable } from '@oarlock/process-supervisor/host/mount-table';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { PreparedContainer } from '../spec/prepared-container.ts';
import type { RuntimeSpec, SpecNamespace, SpecProcess } from '../spec/runtime-spec.ts';
import type { ContainerProgram, ExecTarget, ProgramContainer, StartedProgram } from './container-program.ts';
import { exitOf, holder } from './holder.ts';
import { exitFile, OciProcess } from './oci-process.ts';
import { readSpec } from './stored-spec.ts';
import { rootOperations, type UnshareMode } from './unshare-operations.ts';
import { volumeMounts } from './image-volumes.ts';
import { enterCgroups, forkFirst, joinRoot, makeRoot } from './unshare-scripts.ts';

export interface UnshareOptions {
  readonly mode: UnshareMode;
  readonly host: HostServices;
  readonly cgroups: CgroupManager | undefined;
  /** Directory with copies of the node's programs (toolbox.ts). */
  readonly toolbox: string;
  /** Capabilities of this process. */
  readonly capabilities: readonly string[];
}

/** Name of the file with the name of a container's hidden directory below /dev. */
const hiddenFile = 'hidden';
const wrapperEnvironment = { PATH: systemPath, ...mountEnvironment };

/** Runs containers with the programs of util-linux: as root, or as an ordinary user in a user namespace with one user. */
export class Unshare implements ContainerProgram {
  readonly #options: UnshareOptions;
  constructor(options: UnshareOptions) {
    this.#options = options;
  }

  async run(container: ProgramContainer, spec: RuntimeSpec): Promise<StartedProgram> {
    const { record, sandbox, directory } = container;
    const { cgroups, host } = this.#options;
    const { stdin, tty, linux } = record.config;
    rmSync(join(directory, exitFile), { force: true });
    let cgroup: Cgroup | undefined;
    try {
      cgroup = cgroups?.make(cgroupPath({ record, sandbox }));
      cgroup?.apply(linux.resources);
      const hidden = `.oarlock-${randomBytes(8).toString('hex')}`;
      writeFileSync(join(directory, hiddenFile), hidden, { mode: 0o600 });
      // the wrappers stay outside of the control group: whatever kills it must leave them to report the exit code
      const command = [...this.#namespaces(spec), ...this.#inCgroups(cgroup, this.#makeRoot(container, spec, { hidden, cgroup }))];
      const { command: inner, environment } = onTerminal({ command, environment: wrapperEnvironment, tty }, host.tools);
      const { oomScoreAdj } = spec.process;
      const group = await ProcessGroup.start(
        this.#launch([host.tools.shell, '-c', holder, 'oarlock-holder', join(directory, exitFile), ...inner], environment, {
          process: spec.process,
          depth: tty ? 3 : 2,
        }),
        host,
        { stdin, nice: 0, pipeDirectory: directory, ...(oomScoreAdj !== undefined && { oomScoreAdjust: oomScoreAdj }) },
      );
      const { commandPid: pid = 0 } = group;
      const identity = { pid, started: startTime(pid) };
      const exited = exitOf(group, identity, { directory, clock: host.clock });
      return { process: this.#process(group, { ...identity, tty, exited }), cgroup };
    } catch (error) {
      await cgroup?.remove();
      throw error;
    }
  }

  async exec({ directory }: ProgramContainer, process: SpecProcess, { pid, cgroup, stdin }: ExecTarget): Promise<OciProcess> {
    const { host, mode } = this.#options;
    const { linux } = readSpec(directory);
    const tools = `/dev/${readFileSync(join(directory, hiddenFile), 'latin1')}/tools`;
    const own = linux.namespaces.map(({ type }) => type);
    const enter = [
      this.#tool('nsenter'),
      ...['--target', String(pid), '--mount'],
      ...(mode === 'user' ? ['--user', '--preserve-credentials'] : []),
      ...(['uts', 'ipc', 'pid'] as const).filter((type) => own.includes(type)).map((type) => `--${type}`),
      ...(own.includes('network') ? ['--net'] : []),
      '--',
    ];
    const joined = [...inToolbox(tools, 'sh'), '-c', joinRoot, 'oarlock', tools, ...this.#finish(process, tools, 'exec')];
    const command = this.#inCgroups(cgroup, [...enter, ...joined]);
    const tty = process.terminal;
    const { command: inner, environment } = onTerminal({ command, environment: wrapperEnvironment, tty }, host.tools);
    const forks = own.includes('pid') ? 1 : 0;
    const launch = this.#launch(inner, environment, { process, depth: forks + (tty ? 1 : 0) });
    const group = await ProcessGroup.start(launch, host, { stdin, nice: 0 });
    const { commandPid = 0 } = group;
    return this.#process(group, { pid: commandPid, started: startTime(commandPid), tty, exited: group.exited });
  }

  async delete(_container: ProgramContainer, cgroup: Cgroup | undefined): Promise<void> {
    await cgroup?.remove();
  }

  #process(
    group: ProcessGroup,
    process: {
      readonly pid: number;
      readonly started: string | undefined;
      readonly tty: boolean;
      readonly exited: Promise<number | undefined>;
    },
  ): OciProcess {
    const { stdin, stdout, stderr } = group;
    return new OciProcess({ ...process, stdin, stdout, stderr, stty: this.#options.host.tools.stty });
  }

  /** Returns the words that make and enter the namespaces of a container. */
  #namespaces({ linux: { namespaces }, process: { user } }: RuntimeSpec): readonly string[] {
    const { mode, host } = this.#options;
    const path = (type: SpecNamespace['type']) => namespaces.find((namespace) => namespace.type === type)?.path;
    const flags = { network: '--net', ipc: '--ipc', pid: '--pid', uts: '--uts', mount: '--mount', cgroup: '--cgroup' } as const;
    const joined = namespaces.filter((namespace) => namespace.path !== undefined).map((one) => `${flags[one.type]}=${one.path}`);
    const newNamespaces = namespaces
      .filter(({ type, path: existing }) => existing === undefined && type !== 'cgroup')
      .map(({ type }) => flags[type]);
    return [
      ...(joined.length > 0 ? [this.#tool('nsenter'), ...joined, '--'] : []),
      this.#tool('unshare'),
      ...(mode === 'user' ? ['--user', `--map-user=${user.uid}`, `--map-group=${user.gid}`, '--keep-caps'] : []),
      ...newNamespaces,
      ...['--propagation', 'slave'],
      '--',
      // nsenter forks when it enters a process namespace
      ...(path('pid') === undefined ? [host.tools.shell, '-c', forkFirst, 'oarlock'] : []),
    ];
  }

  #makeRoot(
    { record, directory }: ProgramContainer,
    spec: RuntimeSpec,
    { hidden, cgroup }: { readonly hidden: string; readonly cgroup: Cgroup | undefined },
  ): readonly string[] {
    const { host, mode, toolbox } = this.#options;
    const { mount } = (record.prepared as PreparedContainer).root;
    const root = spec.root.path;
    if (mode === 'user' && mount?.type === 'fuse-overlayfs')
      throw new SupervisorError('Unsupported', 'fuse-overlayfs is not supported for containers of an ordinary user');
    const files = mode === 'user' && mount ? ['overlay', mount.directory, mount.options.join(',')] : ['directory', '/', root];
    const volumes = mode === 'user' ? volumeMounts(record.prepared as PreparedContainer, directory) : [];
    const table = readMountTable();
    const operations = rootOperations(spec, {
      mode,
      table,
      cgroups: (cgroup?.entries ?? []).map((file) => dirname(file)),
    });
    const programs = (['mount', 'pivot_root', 'mkdir', 'hostname'] as const).map((name) => this.#tool(name));
    const start = [host.tools.shell, '-c', makeRoot, 'oarlock', toolbox, ...programs, spec.hostname ?? '', root, hidden, ...files];
    const flags = ['ro', 'nosuid', 'nodev', ...lockedFlags(toolbox, table)].join(',');
    return [...start, flags, ...volumes, ...operations, '--', ...this.#finish(spec.process, `/dev/${hidden}/tools`, 'start')];
  }

  /** Returns the words that a script uses to run the command with its privileges and environment. */
  #finish({ args, env, cwd, user, capabilities, noNewPrivileges }: SpecProcess, tools: string, how: 'start' | 'exec'): readonly string[] {
    const [program = ''] = args;
    if (program.includes('='))
      throw new SupervisorError('InvalidArgument', `the name of a program contains "=": ${JSON.stringify(program)}`);
    const path = env.find((variable) => variable.startsWith('PATH='))?.slice('PATH='.length) ?? '';
    const { mode, capabilities: all } = this.#options;
    const kept = capabilities.bounding.map((name) => name.replace(/^CAP_/, ''));
    // a user other than root has no capability when it joins, so it cannot give any up
    const setsCapabilities = kept.length < all.length && (mode === 'root' || how === 'start' || user.uid === 0);
    const flags = [
      ...(mode === 'root' ? ['--reuid', String(user.uid), '--regid', String(user.gid), '--groups', user.additionalGids.join(',')] : []),
      ...(setsCapabilities ? ['--bounding-set', ['-all', ...kept.map((name) => `+${name.toLowerCase()}`)].join(',')] : []),
      ...(mode === 'root' || how === 'start' ? ['--inh-caps', '-all', '--ambient-caps', '-all'] : []),
      ...(noNewPrivileges ? ['--no-new-privs'] : []),
    ];
    const privileges = flags.length > 0 ? [...inToolbox(tools, 'setpriv'), ...flags, '--'] : [];
    return [cwd, path, program, ...privileges, ...inToolbox(tools, 'env'), '-i', ...env, ...args];
  }

  #inCgroups(cgroup: Cgroup | undefined, command: readonly string[]): readonly string[] {
    if (!cgroup) return command;
    return [this.#options.host.tools.shell, '-c', enterCgroups, 'oarlock', String(cgroup.entries.length), ...cgroup.entries, ...command];
  }

  #launch(
    [file = '', ...args]: readonly string[],
    environment: Readonly<Record<string, string>>,
    { process: { terminal, user }, depth }: { readonly process: SpecProcess; readonly depth: number },
  ): Launch {
    const owner = this.#options.mode === 'root' ? { uid: user.uid, gid: user.gid } : {};
    return { file, args, environment, directory: '/', owner, reports: true, depth, tty: terminal };
  }

  #tool(name: string): string {
    const path = findProgram(name);
    if (path === undefined) throw new SupervisorError('FailedPrecondition', `the program ${name} is not installed`);
    return path;
  }
}

const inToolbox = (tools: string, name: string) => [`${tools}/ld`, '--library-path', `${tools}/lib`, `${tools}/bin/${name}`];
