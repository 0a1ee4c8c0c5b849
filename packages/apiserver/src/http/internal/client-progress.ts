import type { Exchange } from '../exchange.ts';

/**
 * What the server waits for, when the client has to act next: for the rest of the request body, for the client to receive a response that
 * is complete, or for it to receive the next part of a streamed response.
 */
export type ClientPhase = 'body' | 'response' | 'stream';

export interface ClientProgress {
  readonly phase: ClientPhase;
  /** Changes whenever the client makes progress in the phase. */
  readonly count: number;
}

/** An exchange whose client can be timed out. */
export interface MonitoredExchange extends Exchange {
  /** Undefined while the client waits for the server. */
  clientProgress(): ClientProgress | undefined;
  /** Ends the phase: rejects the body, or resets the stream (HTTP/1.1: the connection). */
  timeOut(phase: ClientPhase): void;
  /** The client has disconnected. */
  disconnect(): void;
}
