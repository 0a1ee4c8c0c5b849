import {
  connect,
  type ClientHttp2Session,
  type ClientSessionOptions,
  type Http2Session,
  type Http2Stream,
  type SecureClientSessionOptions,
} from 'node:http2';

/*
 * Node runs the listeners and promises that follow the reset of a stream below nghttp2's receive function. If one of them ends another stream of that
 * session whose own side is still open, by itself or with the session, Node 20 sends pending data without end: the process hangs and its memory grows.
 * Closing a stream with NGHTTP2_CANCEL is safe, because Node defers that code itself.
 */

/** Destroys an HTTP/2 session or stream outside of its receive function, in the next turn of the event loop. */
export function destroyHttp2(target: Http2Session | Http2Stream, error?: Error): void {
  setImmediate(() => target.destroy(error));
}

/** Sets the receive window of an HTTP/2 session in bytes. Node emits `connect` also for a session that has been destroyed, which has no window. */
export function setReceiveWindow(session: Http2Session, bytes: number): void {
  if (!session.destroyed) session.setLocalWindowSize(bytes);
}

/** Closes an HTTP/2 stream with a code outside of its receive function, in the next turn of the event loop. */
export function closeHttp2Stream(stream: Http2Stream, code: number): void {
  setImmediate(() => stream.close(code));
}

/**
 * Connects an HTTP/2 session whose server cannot push streams. Nothing would listen for the errors of a pushed stream, and its server chooses them: an
 * error without a listener ends the process.
 */
export const connectHttp2 = (
  authority: string,
  { settings, ...options }: ClientSessionOptions | SecureClientSessionOptions = {},
): ClientHttp2Session => connect(authority, { ...options, settings: { ...settings, enablePush: false } });
