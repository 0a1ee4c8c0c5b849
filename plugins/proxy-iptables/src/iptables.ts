import { systemClock } from '@oarlock/primitives/clock';
import { runProgram, type ProgramResult } from '@oarlock/primitives/os/run-program';
import type { Family } from '@oarlock/service-rules/port-rules';

const timeoutMs = 60_000;
/** The maximum size of the output of iptables-save, which grows with the number of Services. */
const maxRulesBytes = 1 << 28;
const waitSeconds = '10';

export type IptablesErrorCode = 'NotInstalled' | 'Failed' | 'TimedOut';
export class IptablesError extends Error {
  override readonly name = 'IptablesError';
  readonly code: IptablesErrorCode;
  constructor(code: IptablesErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const commands: Readonly<Record<Family, string>> = { ip: 'iptables', ip6: 'ip6tables' };

async function execute(file: string, args: readonly string[], options: { readonly stdin?: string } = {}): Promise<ProgramResult> {
  let result: ProgramResult;
  try {
    result = await runProgram(systemClock, file, args, { ...options, timeoutMs, maxOutputBytes: maxRulesBytes });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
    throw new IptablesError('NotInstalled', `${file} is not installed`, { cause });
  }
  if (result.killed !== undefined) throw new IptablesError('TimedOut', `${file}: ${result.killed}`);
  return result;
}

async function run(file: string, args: readonly string[], input = ''): Promise<boolean> {
  const { exitCode, stderr } = await execute(file, args, { stdin: input });
  if (exitCode === 0) return true;
  if (input === '') return false;
  throw new IptablesError('Failed', `${file} failed (exit code ${exitCode}): ${stderr.split('\n').slice(0, 4).join(' ')}`);
}

/** Runs iptables-restore without flushing other chains. Each table changes atomically. @throws IptablesError if iptables-restore fails */
export async function restore(family: Family, text: string): Promise<void> {
  await run(`${commands[family]}-restore`, ['-w', waitSeconds, '--noflush'], text);
}

/** A rule of a chain of a table. */
export interface ChainRule {
  readonly table: string;
  readonly chain: string;
  readonly rule: readonly string[];
}

/** Returns true if a rule exists. */
export function has(family: Family, { table, chain, rule }: ChainRule): Promise<boolean> {
  return run(commands[family], ['-w', waitSeconds, '-t', table, '-C', chain, ...rule]);
}

/** Returns the chains of a table whose names start with the prefix. */
export async function chains(family: Family, table: string, prefix: string): Promise<readonly string[]> {
  const { stdout, exitCode } = await execute(`${commands[family]}-save`, ['-t', table]);
  if (exitCode !== 0) return []; // the kernel has no such table
  return stdout
    .split('\n')
    .filter((line) => line.startsWith(`:${prefix}`))
    .map((line) => line.slice(1, line.indexOf(' ')));
}
