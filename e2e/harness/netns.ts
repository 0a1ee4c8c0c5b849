import { randomInt } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { mustRun, runProgram } from './programs.ts';

/** A network namespace with one link to this machine: another machine as far as networking is concerned. */
export interface OtherMachine {
  /** The address of this machine on the link. */
  readonly here: string;
  /** The address of the namespace on the link. */
  readonly there: string;
  /** The interface of this machine on the link. */
  readonly link: string;
  /** The command prefix that runs a program in the namespace. */
  readonly enter: readonly [file: string, ...args: string[]];
  /** The command prefix for programs whose mounts must also be visible here. */
  readonly enterNetwork: readonly [file: string, ...args: string[]];
  remove(): Promise<void>;
}

/** Returns why a network namespace cannot be created, or undefined. */
export async function netnsMissing(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'network namespaces need root on Linux';
  const { code } = await runProgram('ip', ['netns', 'list']).catch(() => ({ code: 1 }));
  return code === 0 ? undefined : 'no ip command with support for network namespaces is installed';
}

export async function otherMachine(): Promise<OtherMachine> {
  const existing = new Set(await readdir('/run/netns').catch(() => []));
  let n: number;
  do n = randomInt(1, 255);
  while (existing.has(`oarlock-e2e-${n}`));
  const [name, outer, inner] = [`oarlock-e2e-${n}`, `oar-e2e${n}`, `oar-in${n}`];
  const [here, there] = [`10.214.${n}.1`, `10.214.${n}.2`];
  const ip = (...args: string[]) => mustRun('ip', args);
  await ip('netns', 'add', name);
  // the kernel removes the link together with the namespace of its other end
  const remove = () => ip('netns', 'del', name).then(() => undefined);
  try {
    await ip('link', 'add', outer, 'type', 'veth', 'peer', 'name', inner, 'netns', name);
    await ip('addr', 'add', `${here}/24`, 'dev', outer);
    await ip('link', 'set', outer, 'up');
    await ip('-n', name, 'addr', 'add', `${there}/24`, 'dev', inner);
    await ip('-n', name, 'link', 'set', inner, 'up');
    await ip('-n', name, 'link', 'set', 'lo', 'up');
    await ip('-n', name, 'route', 'add', 'default', 'via', here);
  } catch (error) {
    await remove();
    throw error;
  }
  const enterNetwork = ['nsenter', `--net=/run/netns/${name}`] as const;
  return { here, there, link: outer, enter: ['ip', 'netns', 'exec', name], enterNetwork, remove };
}
