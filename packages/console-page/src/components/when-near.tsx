import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** The distance from the visible part of the page at which content is rendered, in pixels. */
const margin = 800;

interface WhenNearProps {
  /** The height in pixels that the content probably has, until it was rendered once. */
  readonly estimatedHeight: number;
  render(): ComponentChildren;
}

/**
 * Renders its content while it is near the visible part of the view, and keeps its space otherwise: a view with thousands of elements then opens and changes as
 * fast as one with a screen of them.
 */
export function WhenNear({ estimatedHeight, render }: WhenNearProps) {
  const box = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  const height = useRef(estimatedHeight);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observe = (entries: readonly IntersectionObserverEntry[]) => {
      const entry = entries.at(-1);
      if (entry === undefined) return;
      const { isIntersecting, boundingClientRect } = entry;
      if (!isIntersecting && boundingClientRect.height > 0) height.current = boundingClientRect.height;
      // the element with the focus stays, however far the user scrolls
      setNear(isIntersecting || element.contains(document.activeElement));
    };
    const observer = new IntersectionObserver(observe, { root: element.closest('main'), rootMargin: `${margin}px 0px` });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={box} {...(!isNear && { style: { height: `${height.current}px` } })}>
      {isNear && render()}
    </div>
  );
}
