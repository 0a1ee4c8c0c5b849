import type { Exchange } from '../exchange.ts';

/**
 * The action of the client that the server waits for: `body`: send the rest of the request body; `response`: receive a complete response; `stream`:
 * receive the next part of a streamed response.
 */
export type ClientPhase = 'body' | 'response' | 'stream';

export interface ClientProgress {
  readonly phase: ClientPhase;
  /** A counter that changes whenever the client makes progress in the phase. */
  readonly count: number;
}

/** An exchange that the server ends if its client makes no progress. */
export interface MonitoredExchange extends Exchange {
  /** Returns the phase and its progress; undefined while the client waits for the server. */
  clientProgress(): ClientProgress | undefined;
  /** Ends the exchange because the client made no progress: rejects the body, or resets the stream (HTTP/1.1: the connection). */
  timeOut(phase: ClientPhase): void;
  /** Notifies the exchange that the client has disconnected. */
  disconnect(): void;
}
