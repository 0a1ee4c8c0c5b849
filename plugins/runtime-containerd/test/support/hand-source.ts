import type { RawEvent } from '../../src/events/event-sources.ts';

/** An event source that the test writes to. */
export function handSource() {
  const items: (RawEvent | Error)[] = [];
  let wake: (() => void) | undefined;
  return {
    send(event: RawEvent) {
      items.push(event);
      wake?.();
    },
    fail(error: Error) {
      items.push(error);
      wake?.();
    },
    async *source(signal: AbortSignal): AsyncGenerator<RawEvent> {
      signal.addEventListener('abort', () => wake?.());
      while (!signal.aborted) {
        for (let item = items.shift(); item; item = items.shift()) {
          if (item instanceof Error) throw item;
          yield item;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
