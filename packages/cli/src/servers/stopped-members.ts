import { connect } from 'node:net';
import { CommandError } from '../common/command-error.ts';

const connectTimeoutMs = 2_000;

/**
 * Rejects if another member of etcd still runs. It would continue the former cluster beside the new one, with the same keys and names.
 * @throws CommandError that names the members
 */
export async function requireMembersStopped(urls: readonly string[], timeoutMs = connectTimeoutMs): Promise<void> {
  const running = (await Promise.all(urls.map(async (url) => ((await accepts(url, timeoutMs)) ? [url] : [])))).flat();
  if (running.length > 0)
    throw new CommandError(
      `${running.join(', ')} ${running.length === 1 ? 'is a member that still runs' : 'are members that still run'}: two clusters would exist. Stop the other servers with \`oarlock down\`, or their machines`,
    );
}

/** Returns true if a program accepts connections at a URL. */
function accepts(url: string, timeoutMs: number): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), timeout: timeoutMs });
    const finish = (isAccepted: boolean) => {
      socket.destroy();
      resolve(isAccepted);
    };
    socket.once('connect', () => finish(true));
    socket.once('timeout', () => finish(false));
    socket.once('error', () => finish(false));
  });
}
