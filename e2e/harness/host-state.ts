import { readdir, readFile, readlink } from 'node:fs/promises';
import { runProgram } from './programs.ts';
import { until } from './until.ts';

/** Resources that tests may leave on a machine. */
export interface HostState {
  readonly links: readonly string[];
  readonly namespaces: readonly string[];
  readonly tables: readonly string[];
  readonly rules: readonly string[];
  readonly mounts: readonly string[];
  readonly supervisors: readonly string[];
}

const isRoot = process.getuid?.() === 0;
const lines = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** Daemons and container shims in this network namespace; those in other namespaces belong to other test runs. */
async function supervisors(): Promise<readonly string[]> {
  const networkOf = (pid: string) => readlink(`/proc/${pid}/ns/net`).catch(() => '');
  const ours = await networkOf('self');
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const near = await Promise.all(pids.map(async (pid) => (await networkOf(pid)) === ours));
  const found = await Promise.all(
    pids
      .filter((_, index) => near[index])
      .map(async (pid) => ({
        pid,
        command: (await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).replaceAll('\0', ' ').trim(),
      })),
  );
  return found
    .filter(({ command }) => /^oarlock-supervisor|containerd-shim-runc|^(\S*\/)?(containerd|dockerd|etcd)\s/.test(command))
    .map(({ pid, command }) => `${pid} ${command.slice(0, 120)}`);
}

export async function hostState(): Promise<HostState> {
  if (process.platform !== 'linux') return { links: [], namespaces: [], tables: [], rules: [], mounts: [], supervisors: [] };
  const outputOf = async (file: string, args: readonly string[]) =>
    isRoot ? ((await runProgram(file, args).catch(() => undefined))?.stdout ?? '') : '';
  return {
    links: lines((await runProgram('ip', ['-o', 'link'])).stdout).map((line) => line.split(':')[1]?.trim().split('@')[0] ?? ''),
    namespaces: await readdir('/run/netns').catch(() => []),
    // iptables creates its tables on first use
    tables: lines(await outputOf('nft', ['list', 'tables'])).filter((table) => table.includes('oarlock')),
    rules: lines(await outputOf('iptables-save', [])).filter((line) => /oarlock|CNI-/.test(line)),
    // iproute2 mounts its directory when it creates the first namespace
    mounts: lines(await readFile('/proc/self/mountinfo', 'utf8'))
      .map((line) => line.split(' ')[4] ?? '')
      .filter((path) => !/^(\/var)?\/run\/netns$/.test(path))
      .sort(),
    supervisors: await supervisors(),
  };
}

/** Describes the resources that exist now and did not exist before. */
export function leftovers(before: HostState, now: HostState): readonly string[] {
  const kinds = Object.keys(before) as (keyof HostState)[];
  return kinds.flatMap((kind) => {
    const rest = [...before[kind]];
    return now[kind]
      .filter((each) => {
        const at = rest.indexOf(each);
        if (at >= 0) rest.splice(at, 1);
        return at < 0;
      })
      .map((each) => `${kind}: ${each}`);
  });
}

/** Waits for resources that disappear by themselves. @throws Error that names the remaining resources */
export async function expectNothingLeft(before: HostState): Promise<void> {
  let left: readonly string[] = [];
  await until(
    'nothing is left on the machine',
    async () => {
      left = leftovers(before, await hostState());
      return left.length === 0;
    },
    { everyMs: 200 },
  ).catch(() => {
    throw new Error(`left on the machine: ${left.join('; ')}`);
  });
}

/** Removes what network-bridge or network-calico (whose pod interfaces start with `bridge`), policy-nftables and proxy-nftables leave on purpose, so that traffic continues while they are down. */
export async function removeNetwork(bridge: string | undefined): Promise<void> {
  if (!isRoot || bridge === undefined) return;
  await runProgram('ip', ['link', 'del', bridge]);
  await runProgram('ip', ['route', 'flush', 'type', 'blackhole', 'proto', '78']);
  for (const table of [
    ['inet', `oarlock-${bridge}`],
    ['bridge', `oarlock-${bridge}`],
    ['ip', `oarlock-${bridge}`],
    ['ip6', `oarlock-${bridge}`],
    ['inet', 'oarlock-policy'],
    ['ip', 'oarlock-services'],
    ['ip6', 'oarlock-services'],
  ])
    await runProgram('nft', ['delete', 'table', ...table]);
  const rules = lines((await runProgram('iptables-save', ['-t', 'filter'])).stdout).filter(
    (rule) => rule.startsWith('-A ') && (rule.includes(`oarlock ${bridge}"`) || rule.includes(`oarlock ${bridge}+"`)),
  );
  for (const rule of rules) await runProgram('iptables', words(rule.replace(/^-A/, '-D')));
}

/** A comment match as iptables-save quotes it: `-m comment --comment "a b"`. */
const words = (text: string) => [...text.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '');
