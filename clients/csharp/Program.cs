// A client of polyscan in C#: it reduces one region of a frame, and then plays a line camera and follows its parts.
//
//   dotnet run ADDRESS PICTURE      such as: dotnet run http://localhost:7465 ../../testdata/board.png
using Google.Protobuf;
using Grpc.Core;
using Grpc.Net.Client;
using Polyscan.V1;

if (args.Length != 2)
{
    Console.Error.WriteLine("usage: dotnet run ADDRESS PICTURE");
    return 2;
}
using var channel = GrpcChannel.ForAddress(args[0],
    new GrpcChannelOptions { MaxSendMessageSize = 256 << 20, MaxReceiveMessageSize = 256 << 20 });
try
{
    var passed = Reduce(args[1]);
    return await Scan() && passed ? 0 : 1;
}
catch (RpcException e)
{
    Console.Error.WriteLine($"{e.StatusCode}: {e.Status.Detail}");
    return 1;
}

static Region Rectangle(string name, double x0, double y0, double x1, double y1)
{
    var ring = new Ring();
    ring.Xy.AddRange(new[] { x0, y0, x1, y0, x1, y1, x0, y1 });
    return new Region { Name = name, Rings = { ring } };
}

bool Reduce(string picture)
{
    var chip = Rectangle("U1", 398, 270, 546, 418);
    chip.Limits.Add("mean in [35, 75]");
    var request = new ReduceRequest
    {
        Inspection = new Inspection { RegionSet = new RegionSet { Regions = { chip } } },
        Frame = new Frame { Encoding = Encoding.Auto, Data = ByteString.CopyFrom(File.ReadAllBytes(picture)) },
    };
    // A deadline reaches the scheduler: a call that can't keep it is refused before its pixels are copied.
    var result = new InspectionService.InspectionServiceClient(channel)
        .Reduce(request, deadline: DateTime.UtcNow.AddSeconds(5)).Result;
    foreach (var region in result.Regions)
        Console.WriteLine($"{region.Name} {region.Count} {region.Channels[0].Max} {region.Verdict}");
    return result.Verdict == Verdict.Pass;
}

// Sends strips of a gray ramp, at most as many lines as the server gives credit for, and prints what each part came to.
async Task<bool> Scan()
{
    const int width = 64, partLines = 32, stripLines = 8, strips = 40;
    using var call = new LineScanService.LineScanServiceClient(channel)
        .ScanLines(deadline: DateTime.UtcNow.AddSeconds(30));
    var web = Rectangle("web", 0, 0, width, partLines);
    web.Limits.Add("max < 250");
    await call.RequestStream.WriteAsync(new ScanLinesRequest
    {
        Open = new ScanOpen
        {
            Inspection = new Inspection { RegionSet = new RegionSet { Regions = { web } } },
            Layout = new FrameLayout { Width = width, Height = stripLines, PixelFormat = PixelFormat.Gray8 },
            PartLines = partLines,
            EveryLines = partLines,
        },
    });
    int sent = 0, parts = 0;
    ulong acked = 0, credit = 0, nextResult = 0;
    await foreach (var response in call.ResponseStream.ReadAllAsync())
    {
        switch (response.MessageCase)
        {
            case ScanLinesResponse.MessageOneofCase.Opened:
                credit = response.Opened.CreditLine;
                break;
            case ScanLinesResponse.MessageOneofCase.Ack:
                acked = response.Ack.NextSequence;
                credit = response.Ack.CreditLine;
                break;
            case ScanLinesResponse.MessageOneofCase.Part:
                var part = response.Part;
                nextResult = part.ResultNumber + 1;
                parts++;
                Console.WriteLine($"part {part.PartNumber} sum {part.Regions[0].Channels[0].Sum} {part.Verdict}"
                    + (part.Incomplete ? " incomplete" : ""));
                break;
            case ScanLinesResponse.MessageOneofCase.Event:
                Console.WriteLine(response.Event.Kind);
                break;
        }
        // What there is credit for may go; with nothing under way one strip may go in any case.
        while (sent < strips && ((ulong)(sent + 1) * stripLines <= credit || (ulong)sent == acked))
        {
            var lines = new byte[width * stripLines];
            Array.Fill(lines, (byte)sent);
            await call.RequestStream.WriteAsync(new ScanLinesRequest
            {
                Strip = new Strip
                {
                    Sequence = (ulong)sent,
                    FirstLine = (ulong)sent * stripLines,
                    NextResult = nextResult,
                    Frame = new Frame { Encoding = Encoding.Raw, Data = ByteString.CopyFrom(lines) },
                },
            });
            if (++sent == strips)
                await call.RequestStream.CompleteAsync();
        }
    }
    return parts == strips * stripLines / partLines;
}
