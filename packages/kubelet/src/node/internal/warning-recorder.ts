import type { EventRecorder } from '@oarlock/spi/client';

/** Returns a recorder that drops Normal events: with ten thousand pods, three Normal events per pod would be most of the API server's load. */
export const warningsOnly = (recorder: EventRecorder): EventRecorder => ({
  event: (about, type, reason, message, fieldPath) => {
    if (type !== 'Normal') recorder.event(about, type, reason, message, fieldPath);
  },
});
