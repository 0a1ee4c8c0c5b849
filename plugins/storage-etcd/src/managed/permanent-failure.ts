/** An end of etcd after which a restart ends in the same way. */
export interface PermanentFailure {
  /** Text in the log of etcd. */
  readonly text: string;
  /** Returns what to do. `address` is that of the member. */
  readonly message: (address: string) => string;
}

const permanentFailures: readonly PermanentFailure[] = [
  { text: 'permanently removed', message: () => 'this server was removed from the cluster: join again with a new data directory' },
  // the members have agreed on a version that this program does not have: once all of them have it, etcd 3.4 and 3.5 never go back
  ...['invalid downgrade', 'incompatible with current running cluster'].map((text) => ({
    text,
    message: () =>
      'the etcd program is older than the version that the members of the cluster have agreed on: install the version that `oarlock server list` shows for the other servers',
  })),
  {
    text: 'cannot assign requested address',
    message: (address) =>
      `the etcd member cannot listen on ${address}, which is not an address of this machine: set server.address in the cluster file, or start a server that has joined with \`oarlock server join --address ADDRESS\``,
  },
  {
    text: 'bind: address already in use',
    message: (address) =>
      `the etcd member cannot listen on ${address}: another program uses the port, such as the member of another data directory. End that program, or set managed.clientPort and managed.peerPort`,
  },
];

/** Returns the permanent failure that a line of the log of etcd, or a reason with such a line, reports. */
export const permanentFailure = (line: string | undefined): PermanentFailure | undefined =>
  permanentFailures.find(({ text }) => line?.includes(text) === true);
