import { useEffect } from 'preact/hooks';
import { useLatest } from './hooks.ts';

/** Keys pressed one after the other, such as `g p`, or one key, such as `/`. */
export type KeySequence = string;

const sequenceMs = 1500;

const isTextInput = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  !(target instanceof HTMLInputElement && /^(?:radio|checkbox)$/.test(target.type)) &&
  (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('.terminal') !== null);

/** Calls `onKeys` with a key, and with the sequence that it completes; the first call that returns true ends the sequence. */
export function useKeys(onKeys: (keys: KeySequence) => boolean): void {
  const handler = useLatest(onKeys);
  useEffect(() => {
    let last = '';
    let lastAt = 0;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTextInput(event.target) || document.querySelector('dialog[open]') !== null)
        return;
      const isSequence = last !== '' && event.timeStamp - lastAt < sequenceMs;
      const isHandled = (isSequence && handler(`${last} ${event.key}`)) || handler(event.key);
      if (isHandled) event.preventDefault();
      last = isHandled ? '' : event.key;
      lastAt = event.timeStamp;
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, []);
}
