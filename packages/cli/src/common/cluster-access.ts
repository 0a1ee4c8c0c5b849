import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote-access';
import { adminAccess } from './admin-access.ts';

/** The options of commands that use a running cluster. */
export interface AccessOptions {
  readonly dataDir: string;
  /** Kubeconfig of a cluster, instead of that of the admin in the data directory. */
  readonly kubeconfig?: string;
}

/** Connects to a cluster with a kubeconfig, or as the admin of a data directory. @throws CommandError as `adminAccess` */
export const clusterAccess = ({ dataDir, kubeconfig }: AccessOptions): Promise<RemoteAccess> =>
  kubeconfig === undefined ? adminAccess(dataDir) : remoteAccess(kubeconfig);
