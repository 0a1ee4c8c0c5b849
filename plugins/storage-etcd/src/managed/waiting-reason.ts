/** What is known of a member that runs and does not serve clients yet. */
export interface WaitingMember {
  /** Why the program does not run, or undefined. */
  readonly failure: string | undefined;
  /** True if the cluster has no other member, for which it could wait. */
  readonly isOnlyMember: boolean;
  readonly logFile: string;
  /** The end of the log. */
  readonly recentLog: string;
}

/** Texts in the log of etcd if a member rejects the certificate of another one: the first is that of the rejecting member. */
const rejectedCertificate = ['x509: certificate has expired or is not yet valid', 'remote error: tls: bad certificate'];

/** Returns why a member does not serve clients yet, and what to do. */
export function waitingReason({ failure, isOnlyMember, logFile, recentLog }: WaitingMember): string {
  if (failure !== undefined) return 'it ends';
  if (isOnlyMember) return `${logFile} has its progress`;
  if (rejectedCertificate.some((text) => recentLog.includes(text)))
    return `a member rejects the certificate of another one, which has expired or is not valid yet: compare the clocks of the servers (${logFile})`;
  return 'it waits for a quorum of the members, so start the other servers';
}
