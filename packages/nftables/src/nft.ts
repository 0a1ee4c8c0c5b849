import { systemClock } from '@oarlock/primitives/clock';
import { runProgram, type ProgramOptions, type ProgramResult } from '@oarlock/primitives/os/run-program';

const timeoutMs = 30_000;
/** The rules of all Services and policies of a node. */
const maxListBytes = 1 << 28;

export type NftErrorCode = 'NotInstalled' | 'Refused' | 'TimedOut';
export class NftError extends Error {
  override readonly name = 'NftError';
  readonly code: NftErrorCode;
  constructor(code: NftErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Runs nft commands as one transaction. `enter` is a command with arguments that runs nft in another network namespace, such as nsenter.
 * @throws NftError if nft fails
 */
export async function nft(commands: string, enter: readonly string[] = []): Promise<void> {
  await run([...enter, 'nft', '-f', '-'], { stdin: commands, timeoutMs });
}

/** Returns rules as JSON: `what` is `ruleset`, or `table` with a family and a name. @throws NftError if nft fails */
export function listRules(what: readonly string[], enter: readonly string[] = []): Promise<string> {
  return run([...enter, 'nft', '-j', 'list', ...what], { timeoutMs, maxOutputBytes: maxListBytes });
}

async function run([file = '', ...args]: readonly string[], options: ProgramOptions): Promise<string> {
  let result: ProgramResult;
  try {
    result = await runProgram(systemClock, file, args, options);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
    throw new NftError('NotInstalled', `${file} is not installed`, { cause });
  }
  const { exitCode, stdout, stderr, killed } = result;
  if (exitCode === 0) return stdout;
  if (killed !== undefined) throw new NftError('TimedOut', `nft: ${killed}`);
  throw new NftError('Refused', `nft failed (exit code ${exitCode}): ${stderr.split('\n').slice(0, 4).join(' ')}`);
}
