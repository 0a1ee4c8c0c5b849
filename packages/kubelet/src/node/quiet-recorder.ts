import type { EventRecorder } from '@oarlock/spi/client';

/** Leaves out Normal events: three for each of ten thousand pods would be most of what the API server has to do. */
export const quiet = (recorder: EventRecorder): EventRecorder => ({
  event: (about, type, reason, message, fieldPath) => {
    if (type !== 'Normal') recorder.event(about, type, reason, message, fieldPath);
  },
});
