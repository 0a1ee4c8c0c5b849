import http2 from 'node:http2';
import { Client, credentials } from '@grpc/grpc-js';

let pushesAreOff = false;

/**
 * Makes the sessions of grpc-js reject pushed streams, which it neither uses nor has an option for. The server of a pushed stream chooses its errors, and
 * without a listener they would end the process. grpc-js reads `connect` from the module object at each call
 * (ADR 78).
 */
function turnPushesOff(): void {
  if (pushesAreOff) return;
  pushesAreOff = true;
  const { connect } = http2;
  const withoutPushes = (authority: string, options: http2.ClientSessionOptions = {}, listener?: () => void) =>
    connect(authority, { ...options, settings: { ...options.settings, enablePush: false } }, listener);
  http2.connect = withoutPushes as typeof connect;
}

export interface UnixChannelOptions {
  readonly socket: string;
  readonly maxMessageBytes: number;
}

/** Returns a gRPC client with one connection to a Unix socket. The client reconnects when the server restarts. */
export function unixChannel({ socket, maxMessageBytes }: UnixChannelOptions): Client {
  turnPushesOff();
  return new Client(`unix:${socket}`, credentials.createInsecure(), {
    // servers in Go reject a path as the authority
    'grpc.default_authority': 'localhost',
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 3_000,
  });
}
