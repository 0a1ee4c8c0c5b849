import { execa } from 'execa';
import type { Family } from '@oarlock/service-rules/port-rules';

const timeoutMs = 60_000;
const maxOutput = 1 << 20;
const waitSeconds = '10';

export type IptablesErrorCode = 'NotInstalled' | 'Refused' | 'TimedOut';
export class IptablesError extends Error {
  override readonly name = 'IptablesError';
  readonly code: IptablesErrorCode;
  constructor(code: IptablesErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const commands: Readonly<Record<Family, string>> = { ip: 'iptables', ip6: 'ip6tables' };

async function run(file: string, args: readonly string[], input = ''): Promise<boolean> {
  const { failed, exitCode, stderr, timedOut, code } = await execa(file, args, {
    input,
    reject: false,
    timeout: timeoutMs,
    maxBuffer: maxOutput,
  });
  if (!failed) return true;
  if (code === 'ENOENT') throw new IptablesError('NotInstalled', `${file} is not installed`);
  if (timedOut) throw new IptablesError('TimedOut', `${file} did not end within ${timeoutMs / 1000} s`);
  if (input === '') return false;
  throw new IptablesError('Refused', `${file} failed (exit code ${exitCode}): ${String(stderr).split('\n').slice(0, 4).join(' ')}`);
}

/** Runs iptables-restore without flushing other chains. Each table changes atomically. @throws IptablesError */
export async function restore(family: Family, text: string): Promise<void> {
  await run(`${commands[family]}-restore`, ['-w', waitSeconds, '--noflush'], text);
}

/** Returns true if a rule exists. */
export function has(family: Family, table: string, chain: string, rule: readonly string[]): Promise<boolean> {
  return run(commands[family], ['-w', waitSeconds, '-t', table, '-C', chain, ...rule]);
}

/** Returns the chains of a table whose names have a prefix. */
export async function chains(family: Family, table: string, prefix: string): Promise<readonly string[]> {
  const { stdout, failed, code } = await execa(`${commands[family]}-save`, ['-t', table], {
    reject: false,
    timeout: timeoutMs,
    maxBuffer: 1 << 28,
  });
  if (code === 'ENOENT') throw new IptablesError('NotInstalled', `${commands[family]}-save is not installed`);
  if (failed) return []; // the kernel has no such table
  return stdout
    .split('\n')
    .filter((line) => line.startsWith(`:${prefix}`))
    .map((line) => line.slice(1, line.indexOf(' ')));
}
