import { Component, type ComponentChildren } from 'preact';
import { text } from '../text/en.ts';
import { ErrorMessage } from './error-message.tsx';

interface Props {
  readonly children: ComponentChildren;
  /** The address of the page: another one is shown after a failure. */
  readonly position: string;
}

/** Shows the error of a view that fails, instead of an empty page. */
export class ErrorBoundary extends Component<Props, { readonly error?: unknown }> {
  override state: { readonly error?: unknown } = {};

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
  }

  override componentDidUpdate(last: Props): void {
    if (last.position !== this.props.position && this.state.error !== undefined) this.setState({ error: undefined });
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <ErrorMessage title={text.errors.view} error={error} onRetry={() => this.setState({ error: undefined })} />;
  }
}
