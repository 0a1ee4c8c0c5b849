import { execa } from 'execa';

const timeoutMs = 30_000;
const maxOutput = 1 << 20;

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
  const [file = '', ...args] = [...enter, 'nft', '-f', '-'];
  const { failed, exitCode, stderr, timedOut, code } = await execa(file, args, {
    input: commands,
    reject: false,
    timeout: timeoutMs,
    maxBuffer: maxOutput,
  });
  if (!failed) return;
  if (code === 'ENOENT') throw new NftError('NotInstalled', 'nft is not installed');
  if (timedOut) throw new NftError('TimedOut', `nft did not exit within ${timeoutMs / 1000} s`);
  throw new NftError('Refused', `nft failed (exit code ${exitCode}): ${String(stderr).split('\n').slice(0, 4).join(' ')}`);
}
