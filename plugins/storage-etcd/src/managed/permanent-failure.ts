/** An end of etcd after which a restart ends in the same way. */
export interface PermanentFailure {
  /** Text in the log of etcd. */
  readonly text: string;
  /** Returns what to do. `address` is that of the member. */
  readonly message: (address: string) => string;
}

const permanentFailures: readonly PermanentFailure[] = [
  { text: 'permanently removed', message: () => 'this server was removed from the cluster: join again with a new data directory' },
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
