import { hostname } from 'node:os';
import type { EventRecorder, EventRecorderFactory } from '@oarlock/spi/client';

/** The Event recorders of plugins, one for each scheduler name, which is the reporting controller of the Events. */
export class EventRecorders {
  readonly #events: EventRecorderFactory;
  readonly #recorders = new Map<string, EventRecorder>();

  constructor(events: EventRecorderFactory) {
    this.#events = events;
  }

  of(schedulerName: string): EventRecorder {
    let recorder = this.#recorders.get(schedulerName);
    if (recorder === undefined) this.#recorders.set(schedulerName, (recorder = this.#events.recorder(schedulerName, hostname())));
    return recorder;
  }
}
