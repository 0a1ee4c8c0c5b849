import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, EventRecorder, Informers } from '@oarlock/spi/client';
import type { CsiDriver } from '../driver/csi-driver.ts';

/** The work of one Kubernetes CSI sidecar, which this process does for a driver. */
export interface Sidecar {
  start(): void;
  stop(): Promise<void>;
}

/** Dependencies of all sidecars. */
export interface SidecarOptions {
  readonly driver: CsiDriver;
  readonly nodeName: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}
