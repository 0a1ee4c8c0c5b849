import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote-access';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { adminAccess } from './admin-access.ts';
import { CommandError } from './command-error.ts';
import { within } from './within.ts';

/** The options of commands that use a running cluster. */
export interface AccessOptions {
  readonly dataDir: string;
  /** Kubeconfig of a cluster, instead of that of the admin in the data directory. */
  readonly kubeconfig?: string;
}

export interface LimitedAccessOptions extends AccessOptions {
  /** Time in seconds for all answers of the API server together. */
  readonly timeout: number;
}

export interface AccessLimit {
  readonly clock?: Pick<Clock, 'after'>;
  /** Returns what the command waits for, as a sentence without its end; by default it waits for the API server. */
  readonly describeWait?: () => string | undefined;
}

/** Connects to a cluster with a kubeconfig, or as the admin of a data directory. @throws CommandError as `adminAccess` */
export const clusterAccess = ({ dataDir, kubeconfig }: AccessOptions): Promise<RemoteAccess> =>
  kubeconfig === undefined ? adminAccess(dataDir) : remoteAccess(kubeconfig);

/**
 * Connects as `clusterAccess` does, calls `work`, and closes the connection. An API server without its storage holds a request for a minute, and a command
 * sends several: the limit is for all of them. @throws CommandError if the work has not finished in time
 */
export async function withCluster<T>(
  { timeout: seconds, ...options }: LimitedAccessOptions,
  work: (access: RemoteAccess) => Promise<T>,
  { clock = systemClock, describeWait = () => undefined }: AccessLimit = {},
): Promise<T> {
  let access: RemoteAccess | undefined;
  let isLate = false;
  const error = () => {
    isLate = true;
    const waiting = describeWait() ?? `the API server${access === undefined ? '' : ` ${access.server}`} did not answer`;
    return new CommandError(`${waiting} within ${seconds} s; \`oarlock status\` shows what fails, and --timeout sets another limit`);
  };
  const connectAndWork = async () => {
    access = await clusterAccess(options);
    if (!isLate) return work(access);
    access.close(); // connected after the limit: nothing closes it later
    throw error();
  };
  try {
    return await within(connectAndWork(), { seconds, clock, error });
  } finally {
    access?.close();
  }
}
