import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, EventRecorder, Informers } from '@oarlock/spi/client';
import type { CsiDriver } from './csi-driver.ts';

/** What does for a driver what one of the sidecars of Kubernetes would. */
export interface Sidecar {
  start(): void;
  stop(): Promise<void>;
}

/** What each of them needs. */
export interface SidecarOptions {
  readonly driver: CsiDriver;
  readonly nodeName: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}
