<?php

declare(strict_types=1);

namespace PartnerSdk;

use GuzzleHttp\Exception\TransferException;
use GuzzleHttp\Promise\PromiseInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Guzzle middleware that retries, after a pause, what got a 429, a 503 or no response. It retries what is safe to repeat: reads,
 * cancellations, revocations, and every request with an Idempotency-Key. A POST that takes a key and has none gets one, the same for all
 * its tries.
 */
final class Retries
{
    /**
     * @param int $tries most tries of a request
     * @param int $pauseMs before the second try, doubled before each further one, less up to half at random
     * @param int $longestMs longest pause; a longer Retry-After is returned
     */
    public function __construct(private readonly int $tries = 4, private readonly int $pauseMs = 500, private readonly int $longestMs = 20_000)
    {
    }

    /** A key for one action of a user. Store it with what you are about to send, and send it again after a crash of your process. */
    public static function newIdempotencyKey(): string
    {
        return bin2hex(random_bytes(16));
    }

    public function __invoke(callable $next): callable
    {
        return function (RequestInterface $request, array $options) use ($next): PromiseInterface {
            $path = $request->getUri()->getPath();
            if ($request->getMethod() === 'POST' && preg_match('#/api/v1/(consultations|wallet/topup-session)\z#', $path) === 1 && !$request->hasHeader('Idempotency-Key')) {
                $request = $request->withHeader('Idempotency-Key', self::newIdempotencyKey());
            }
            $repeatable = in_array($request->getMethod(), ['GET', 'HEAD'], true) || $request->hasHeader('Idempotency-Key')
                || preg_match('#/api/(v1/consultations/[^/]+/cancel|oauth/revoke)\z#', $path) === 1;
            return $this->attempt($next, $request, $options, 1, $repeatable ? $this->tries : 1);
        };
    }

    /** @param array<string, mixed> $options */
    private function attempt(callable $next, RequestInterface $request, array $options, int $turn, int $tries): PromiseInterface
    {
        $request->getBody()->rewind();
        $pause = $this->pauseMs * 2 ** ($turn - 1);
        $pause -= random_int(0, intdiv($pause, 2));
        $again = fn (int $wait): PromiseInterface => $this->attempt($next, $request, ['delay' => min($wait, $this->longestMs)] + $options, $turn + 1, $tries);
        return $next($request, $options)->then(
            function (ResponseInterface $response) use ($turn, $tries, $pause, $again): ResponseInterface|PromiseInterface {
                $wait = $pause + self::retryAfterMs($response);
                if ($turn >= $tries || !in_array($response->getStatusCode(), [429, 503], true) || $wait > $this->longestMs) {
                    return $response;
                }
                return $again($wait);
            },
            function (mixed $reason) use ($turn, $tries, $pause, $again): PromiseInterface {
                if ($turn >= $tries || !$reason instanceof TransferException) {
                    throw $reason instanceof \Throwable ? $reason : new \RuntimeException('the request failed');
                }
                return $again($pause);
            }
        );
    }

    private static function retryAfterMs(ResponseInterface $response): int
    {
        $value = $response->getHeaderLine('Retry-After');
        if (preg_match('/\A[0-9]{1,9}\z/', $value) === 1) {
            return (int) $value * 1000;
        }
        $at = strtotime($value);
        return $at === false ? 0 : max(0, ($at - time()) * 1000);
    }
}
