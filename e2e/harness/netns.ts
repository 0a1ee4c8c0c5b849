import { randomInt } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { mustRun, runProgram } from './programs.ts';

/** A network namespace with one link to this machine: as far as networks go, another machine. */
export interface OtherMachine {
  /** Of this machine, on the link. */
  readonly here: string;
  /** Of the other one. */
  readonly there: string;
  /** This machine's end of the link. */
  readonly link: string;
  /** What to run a program there with. */
  readonly enter: readonly [file: string, ...args: string[]];
  /** The same for one that mounts: what it mounts is seen here, too. */
  readonly enterNetwork: readonly [file: string, ...args: string[]];
  remove(): Promise<void>;
}

/** Why there cannot be one; undefined: there can. */
export async function netnsMissing(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'network namespaces need root on Linux';
  const { code } = await runProgram('ip', ['netns', 'list']).catch(() => ({ code: 1 }));
  return code === 0 ? undefined : 'there is no ip command that knows network namespaces';
}

export async function otherMachine(): Promise<OtherMachine> {
  const taken = new Set(await readdir('/run/netns').catch(() => []));
  let n: number;
  do n = randomInt(1, 255);
  while (taken.has(`oarlock-e2e-${n}`));
  const [name, outer, inner] = [`oarlock-e2e-${n}`, `oar-e2e${n}`, `oar-in${n}`];
  const [here, there] = [`10.214.${n}.1`, `10.214.${n}.2`];
  const ip = (...args: string[]) => mustRun('ip', args);
  await ip('netns', 'add', name);
  // the link is gone with the namespace that its other end is in
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
